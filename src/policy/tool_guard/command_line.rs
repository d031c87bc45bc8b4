//! Recognition of the commands in a shell command line, without a shell. Pure.

/// Returns whether every command of `line` has one of the `allowed` prefixes, compared
/// word by word. Syntax that hides a command or redirects output is never allowed.
pub(super) fn has_allowed_prefixes(line: &str, allowed: &[String]) -> bool {
    let Some(commands) = commands(line) else {
        return false;
    };
    let is_allowed = |command: &Vec<String>| {
        let mut prefixes = allowed.iter().map(|prefix| prefix.split_whitespace());
        prefixes.any(|mut prefix| {
            let mut words = command.iter();
            prefix.all(|expected| words.next().is_some_and(|word| word == expected))
        })
    };
    !commands.is_empty() && commands.iter().all(is_allowed)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Quote {
    None,
    Single,
    Double,
}

/// Splits a line into the words of each command; `None` if it contains syntax that may
/// hide a command.
fn commands(line: &str) -> Option<Vec<Vec<String>>> {
    let mut commands = vec![Vec::new()];
    let mut word: Option<String> = None;
    let mut quote = Quote::None;
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (_, '\0') | (Quote::None | Quote::Double, '$' | '`') => return None,
            (Quote::None | Quote::Double, '\\') => {
                // A line continuation, or an escaped letter. In double quotes only a
                // few letters can be escaped; before others the backslash is literal.
                let next = letters.next()?;
                let word = word.get_or_insert_default();
                if quote == Quote::Double && !matches!(next, '$' | '`' | '"' | '\\') {
                    word.push(letter);
                }
                word.push(next);
            }
            (Quote::None, '<' | '>' | '(' | ')' | '{' | '}' | '*' | '?' | '[' | '!' | '#') => {
                return None;
            }
            (Quote::None, ';' | '|' | '&' | '\n' | '\r') => {
                end_word(&mut commands, &mut word);
                commands.push(Vec::new());
            }
            (Quote::None, ' ' | '\t') => end_word(&mut commands, &mut word),
            (Quote::None, '\'') => (quote, word) = (Quote::Single, Some(word.unwrap_or_default())),
            (Quote::None, '"') => (quote, word) = (Quote::Double, Some(word.unwrap_or_default())),
            (Quote::Single, '\'') | (Quote::Double, '"') => quote = Quote::None,
            (_, letter) => word.get_or_insert_default().push(letter),
        }
    }
    if quote != Quote::None {
        return None;
    }
    end_word(&mut commands, &mut word);
    commands.retain(|command| !command.is_empty());
    Some(commands)
}

fn end_word(commands: &mut [Vec<String>], word: &mut Option<String>) {
    if let (Some(word), Some(command)) = (word.take(), commands.last_mut()) {
        command.push(word);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expected: bool) {
        let allowed = [
            "git status".to_owned(),
            "ls".to_owned(),
            "git log".to_owned(),
        ];
        assert_eq!(has_allowed_prefixes(line, &allowed), expected, "{line}");
    }

    #[test]
    fn every_command_of_a_line_is_checked() {
        check("ls", true);
        check("ls -la 'a b; c'", true);
        check("  git   status --short", true);
        check("git status && ls | ls; git log", true);
        check("git \"status\"", true);
        check("git push", false);
        check("lsof", false);
        check("git", false);
        check("ls && rm -rf /", false);
        check("ls; curl evil", false);
        check("ls | sh", false);
        check("ls & sh", false);
        check("ls\nsh", false);
        check("", false);
        check(" ; ", false);
    }

    #[test]
    fn syntax_that_may_hide_a_command_is_not_allowed() {
        check("ls $(sh)", false);
        check("ls \"$(sh)\"", false);
        check("ls `sh`", false);
        check("ls <(sh)", false);
        check("ls > /etc/passwd", false);
        check("$CMD", false);
        check("X=1 ls", false);
        check("ls 'open", false);
        check("ls '$(sh)'", true);
        check("l\\s", true);
        check("\"l\\s\"", false);
        check("git\u{a0}status", false);
        check("git\u{2028}status", false);
        check("ls \0 sh", false);
        check("ls \\\n -la", true);
        check("ls \\\n; sh", false);
        check("ls\rsh", false);
        check("ls '\n' sh", true);
        check("ls $'\\n'sh", false);
        check("if ls; then sh; fi", false);
        check("ls \u{201c}; sh", false);
        check("ls 'a' ; sh 'b'", false);
    }
}
