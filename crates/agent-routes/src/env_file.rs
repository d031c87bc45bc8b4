//! Files of variables (`.env`), as the libraries `dotenv` of Node and python-dotenv read them.

use serde_json::{Map, Value};

/// Maximum number of bytes of a value with variables in place of their names. Longer ones could
/// multiply from line to line, and are kept as they are written.
const MAX_EXPANDED_BYTES: usize = 256;

/// Characters that may enclose a value, also over several lines.
const QUOTES: [char; 3] = ['\'', '"', '`'];

/// Returns the variables of a file. Lines that are not like `NAME=value` or `NAME: value` are
/// ignored.
pub(crate) fn variables(text: &str) -> Map<String, Value> {
    let mut variables = Map::new();
    let mut rest = text.trim_start_matches('\u{feff}');
    while !rest.is_empty() {
        let (line, next) = split_line(rest);
        let assignment = split_assignment(line)
            .and_then(|(name, value)| Some((read_name(name)?, line.len() - value.len())));
        let Some((name, start)) = assignment else {
            rest = next;
            continue;
        };
        let (_, text) = rest.split_at_checked(start).unwrap_or_default();
        let (value, next) = quoted(text).unwrap_or_else(|| unquoted(text));
        let value = expanded(value, &variables);
        variables.insert(name.to_owned(), value.into());
        rest = next;
    }
    variables
}

/// Splits a line at its first `=` or `: `.
fn split_assignment(line: &str) -> Option<(&str, &str)> {
    match (line.split_once('='), line.split_once(": ")) {
        (Some(equals), Some(colon)) if colon.0.len() < equals.0.len() => Some(colon),
        (equals, colon) => equals.or(colon),
    }
}

/// Returns a value with the variables of earlier lines in place of `${NAME}`.
fn expanded(value: &str, variables: &Map<String, Value>) -> String {
    let mut expanded = String::new();
    let mut rest = value;
    while let Some((before, reference)) = rest.split_once("${") {
        let known = reference.split_once('}').and_then(|(name, after)| {
            let known = variables.get(name)?.as_str()?;
            Some((known, after))
        });
        expanded.push_str(before);
        let (text, after) = known.unwrap_or(("${", reference));
        if expanded.len() + text.len() > MAX_EXPANDED_BYTES {
            return value.to_owned();
        }
        expanded.push_str(text);
        rest = after;
    }
    expanded + rest
}

fn read_name(text: &str) -> Option<&str> {
    let text = text.trim();
    let exported = text.strip_prefix("export");
    let exported = exported.filter(|name| name.starts_with(char::is_whitespace));
    let name = exported.map_or(text, str::trim_start);
    let is_part = |char: char| char.is_ascii_alphanumeric() || "_.-".contains(char);
    (!name.is_empty() && name.chars().all(is_part)).then_some(name)
}

/// Returns a quoted value, and the text after its line.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start_matches([' ', '\t']);
    let quote = text.chars().next().filter(|char| QUOTES.contains(char))?;
    let text = text.strip_prefix(quote)?;
    let mut is_escaped = false;
    let end = text.find(|char| {
        let is_end = char == quote && !is_escaped;
        is_escaped = char == '\\' && !is_escaped;
        is_end
    })?;
    let (value, after) = text.split_at_checked(end)?;
    let (behind, rest) = split_line(after.strip_prefix(quote)?);
    let behind = behind.trim();
    (behind.is_empty() || behind.starts_with('#')).then_some((value, rest))
}

/// Returns the value to the end of its line or to a comment, and the text after the line.
fn unquoted(text: &str) -> (&str, &str) {
    let (line, rest) = split_line(text);
    let comment = line
        .match_indices('#')
        .map(|(start, _)| line.split_at(start));
    let mut before = comment.map(|(before, _)| before);
    let value = before.find(|before| before.ends_with(char::is_whitespace));
    (value.unwrap_or(line).trim(), rest)
}

fn split_line(text: &str) -> (&str, &str) {
    text.split_once('\n').unwrap_or((text, ""))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_quoted_or_end_with_their_line() {
        let text = concat!(
            "\u{feff}FIRST=1\n# A='comment\nNAME=My App\nTIME=it's late # a comment\r\n",
            "export KEY = \"a=b # c\" # comment\nMORE='x\nB=y'\n",
            "HOST: 127.0.0.1\nURL=http://${HOST}:1/${UNKNOWN}\n",
            "a line\nnot a name=1\nJUNK='a' b\nEMPTY=\nOPEN=\"a\nLAST=a#b",
        );
        let expected = json!({
            "FIRST": "1", "HOST": "127.0.0.1", "URL": "http://127.0.0.1:1/${UNKNOWN}",
            "NAME": "My App", "TIME": "it's late", "KEY": "a=b # c", "MORE": "x\nB=y",
            "JUNK": "'a' b", "EMPTY": "", "OPEN": "\"a", "LAST": "a#b",
        });
        assert_eq!(Value::from(variables(text)), expected);
    }

    #[test]
    fn values_within_values_do_not_multiply() {
        let names = |name: &str| format!("${{{name}}}").repeat(64);
        let [second, third] = ["B", "C"].map(names);
        let text = format!(
            "A={second}\nB={third}\nC={}\nZ={}\n",
            "c".repeat(256),
            names("A")
        );

        let variables = variables(&text);

        let longest = variables.values().map(|value| value.to_string().len());
        assert!(longest.max() < Some(1024));
    }
}
