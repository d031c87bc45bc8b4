//! Search for texts that an editor would change, without parsing. Most contents hold none.

use memchr::memchr2;
use strict_json::same_field;

use crate::dialect::{
    google::{
        fields::PARTS,
        part_text::{NAME_FIELDS, OPAQUE_FIELDS, kind_of_field},
    },
    json::from_utf8,
    text_edit::{TextEditor, TextKind},
};

/// Returns whether a checked list of contents may hold a text that the editor would change.
pub fn contents_need_edit(contents: &[u8], editor: &dyn TextEditor) -> bool {
    scan(contents, editor, |scanner| {
        scanner.elements(TextScanner::content)
    })
}

/// Returns whether a checked content may hold a text that the editor would change.
pub fn content_needs_edit(content: &[u8], editor: &dyn TextEditor) -> bool {
    scan(content, editor, TextScanner::content)
}

fn scan<'t>(
    json: &'t [u8],
    editor: &'t dyn TextEditor,
    scan: impl FnOnce(&mut TextScanner<'t>) -> Option<bool>,
) -> bool {
    let Ok(rest) = from_utf8(json) else {
        return true;
    };
    let mut scanner = TextScanner {
        rest,
        text: String::new(),
        run: String::new(),
        run_is_thought: None,
        editor,
    };
    scan(&mut scanner).unwrap_or(true)
}

/// A single pass over JSON. Each step returns whether the editor would change the skipped
/// text, or `None` if that needs a parser.
struct TextScanner<'t> {
    rest: &'t str,
    /// Buffer for a decoded string.
    text: String,
    /// Decoded texts of neighbouring parts, which are read as one.
    run: String,
    /// Whether the run consists of thoughts; `None` if there is no run.
    run_is_thought: Option<bool>,
    editor: &'t dyn TextEditor,
}

/// A scalar value or key.
enum Token<'t> {
    /// A string or a key; its first quote is consumed.
    Quoted,
    /// A number, `true`, `false` or `null`.
    Literal(&'t str),
}

impl<'t> TextScanner<'t> {
    fn content(&mut self) -> Option<bool> {
        self.fields(|scanner, key| match key {
            "role" => scanner.skip(),
            "parts" => scanner.parts(),
            _ => None,
        })
    }

    fn parts(&mut self) -> Option<bool> {
        let found = self.elements(Self::part)?;
        Some(found || self.extend_run(self.run.len(), None))
    }

    fn part(&mut self) -> Option<bool> {
        let start = self.run.len();
        let (mut has_text, mut is_thought) = (false, false);
        let found = self.fields(|scanner, key| match key {
            "text" => {
                has_text = true;
                scanner.rest = unquote(scanner.rest.strip_prefix('"')?, &mut scanner.run)?;
                Some(false)
            }
            "thought" => {
                is_thought = scanner.boolean()?;
                Some(false)
            }
            key if OPAQUE_FIELDS.contains(&key) => scanner.skip(),
            key => {
                let kind = kind_of_field(key).filter(|kind| *kind != TextKind::Speech)?;
                scanner.call_or_result(kind)
            }
        })?;
        Some(found || self.extend_run(start, has_text.then_some(is_thought)))
    }

    /// Adds a part whose text begins at `start` to the run, or ends the run before it.
    /// Returns whether the editor would change the ended run.
    fn extend_run(&mut self, start: usize, is_thought: Option<bool>) -> bool {
        let previous = std::mem::replace(&mut self.run_is_thought, is_thought);
        if previous == is_thought {
            return false;
        }
        let ended = self.run.get(..start).unwrap_or_default();
        let found = previous.is_some() && self.editor.wants(TextKind::Speech, ended);
        self.run.drain(..start);
        found
    }

    fn call_or_result(&mut self, kind: TextKind) -> Option<bool> {
        if self.rest.starts_with("null") {
            return self.skip();
        }
        self.fields(|scanner, key| match key {
            key if NAME_FIELDS.contains(&key) => scanner.skip(),
            // A result may have parts of its own.
            key if PARTS
                .iter()
                .any(|parts| same_field(key.as_bytes(), parts.as_bytes())) =>
            {
                None
            }
            _ => scanner.free_form_value(kind),
        })
    }

    /// Scans a value in which every string, number and key is a text.
    fn free_form_value(&mut self, kind: TextKind) -> Option<bool> {
        self.tokens(|scanner, token| match token {
            Token::Quoted => {
                scanner.text.clear();
                scanner.rest = unquote(scanner.rest, &mut scanner.text)?;
                Some(scanner.editor.wants(kind, &scanner.text))
            }
            Token::Literal("true" | "false" | "null") => Some(false),
            // The parsed number may be formatted differently.
            Token::Literal(number) if number.contains(['e', 'E']) => None,
            Token::Literal(number) => Some(scanner.editor.wants(kind, number)),
        })
    }

    fn skip(&mut self) -> Option<bool> {
        self.tokens(|scanner, token| {
            if matches!(token, Token::Quoted) {
                scanner.rest = after_string(scanner.rest)?;
            }
            Some(false)
        })
    }

    /// Visits the scalars and keys of one value.
    fn tokens(
        &mut self,
        mut visit: impl FnMut(&mut Self, Token<'t>) -> Option<bool>,
    ) -> Option<bool> {
        let mut depth = 0_usize;
        loop {
            self.skip_space();
            let first = *self.rest.as_bytes().first()?;
            let token = match first {
                b'"' => Some(Token::Quoted),
                b'{' | b'[' | b'}' | b']' | b',' | b':' => None,
                _ => Some(Token::Literal(self.literal()?)),
            };
            depth = match first {
                b'{' | b'[' => depth + 1,
                b'}' | b']' => depth.checked_sub(1)?,
                _ => depth,
            };
            if !matches!(token, Some(Token::Literal(_))) {
                self.rest = self.rest.get(1..)?;
            }
            let found = token.map_or(Some(false), |token| visit(self, token))?;
            if found || depth == 0 {
                return Some(found);
            }
        }
    }

    /// Visits the fields of an object whose keys have no escapes.
    fn fields(&mut self, mut visit: impl FnMut(&mut Self, &str) -> Option<bool>) -> Option<bool> {
        self.list('{', '}', |scanner| {
            let (key, rest) = scanner.rest.strip_prefix('"')?.split_once('"')?;
            scanner.rest = rest;
            scanner.skip_space();
            scanner.rest = scanner.rest.strip_prefix(':')?;
            scanner.skip_space();
            (!key.contains('\\')).then(|| visit(scanner, key))?
        })
    }

    fn elements(&mut self, visit: impl FnMut(&mut Self) -> Option<bool>) -> Option<bool> {
        self.list('[', ']', visit)
    }

    fn list(
        &mut self,
        open: char,
        close: char,
        mut visit: impl FnMut(&mut Self) -> Option<bool>,
    ) -> Option<bool> {
        self.skip_space();
        self.rest = self.rest.strip_prefix(open)?;
        loop {
            self.skip_space();
            if let Some(rest) = self.rest.strip_prefix(close) {
                self.rest = rest;
                return Some(false);
            }
            if visit(self)? {
                return Some(true);
            }
            self.skip_space();
            self.rest = self.rest.strip_prefix(',').unwrap_or(self.rest);
        }
    }

    fn boolean(&mut self) -> Option<bool> {
        self.literal()?.parse().ok()
    }

    /// Consumes a number, `true`, `false` or `null`.
    fn literal(&mut self) -> Option<&'t str> {
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
        let length = self.rest.bytes().take_while(|byte| is_part(*byte)).count();
        let (literal, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        (length > 0).then_some(literal)
    }

    fn skip_space(&mut self) {
        // Most JSON has none.
        if self.rest.starts_with([' ', '\n', '\t', '\r']) {
            self.rest = self.rest.trim_ascii_start();
        }
    }
}

/// Returns what follows a string.
fn after_string(mut json: &str) -> Option<&str> {
    loop {
        let stop = memchr2(b'"', b'\\', json.as_bytes())?;
        let rest = json.get(stop..)?;
        if let Some(rest) = rest.strip_prefix('"') {
            return Some(rest);
        }
        let mut escape = rest.chars();
        escape.by_ref().take(2).for_each(drop);
        json = escape.as_str();
    }
}

/// Appends a decoded string to `text`. Returns what follows it, or `None` if it is invalid.
fn unquote<'t>(mut json: &'t str, text: &mut String) -> Option<&'t str> {
    loop {
        let stop = memchr2(b'"', b'\\', json.as_bytes())?;
        let (plain, rest) = json.split_at_checked(stop)?;
        text.push_str(plain);
        if let Some(rest) = rest.strip_prefix('"') {
            return Some(rest);
        }
        let (character, rest) = unescape(rest.strip_prefix('\\')?)?;
        text.push(character);
        json = rest;
    }
}

/// Decodes an escape after its backslash. Returns the character and what follows.
fn unescape(json: &str) -> Option<(char, &str)> {
    let (letter, rest) = json.split_at_checked(1)?;
    let character = match letter {
        "\"" | "\\" | "/" => letter.chars().next()?,
        "n" => '\n',
        "t" => '\t',
        "r" => '\r',
        "b" => '\u{8}',
        "f" => '\u{c}',
        "u" => return unescape_unicode(rest),
        _ => return None,
    };
    Some((character, rest))
}

/// Decodes a `\u` escape, or a surrogate pair of two.
fn unescape_unicode(json: &str) -> Option<(char, &str)> {
    let (first, rest) = hex_unit(json)?;
    if let Some(character) = char::from_u32(first) {
        return Some((character, rest));
    }
    let (second, rest) = hex_unit(rest.strip_prefix("\\u")?)?;
    let is_pair = (0xd800..0xdc00).contains(&first) && (0xdc00..0xe000).contains(&second);
    let code = is_pair.then(|| 0x1_0000 + ((first & 0x3ff) << 10 | second & 0x3ff))?;
    Some((char::from_u32(code)?, rest))
}

fn hex_unit(json: &str) -> Option<(u32, &str)> {
    let (digits, rest) = json.split_at_checked(4)?;
    let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let unit = is_hex.then(|| u32::from_str_radix(digits, 16).ok())??;
    Some((unit, rest))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::dialect::{
        Document, Operation, RequestLine, google::edit_request_texts, recognize_call,
    };

    /// Changes texts with certain characters; with or without a prescan.
    struct Editor {
        prescans: bool,
    }

    fn changed(text: &str) -> Option<String> {
        let found = ["ss", "5", "\n/", "é\\", "🦀", "e+"]
            .iter()
            .any(|it| text.contains(it));
        found.then(|| text.replace(['s', '5', '/', 'é', '🦀'], "*"))
    }

    impl TextEditor for Editor {
        fn wants(&self, _kind: TextKind, text: &str) -> bool {
            !self.prescans || changed(text).is_some()
        }

        fn edit_joined(&mut self, _kind: TextKind, texts: &mut [String]) -> bool {
            let found = changed(&texts.concat()).is_some();
            for text in texts.iter_mut().filter(|_| found) {
                *text = format!("*{text}");
            }
            found
        }

        fn edit(&mut self, kind: TextKind, text: &str) -> Option<String> {
            changed(text).map(|it| format!("{kind:?}{it}"))
        }
    }

    fn edited(body: &str, prescans: bool) -> Result<String, String> {
        let line = RequestLine {
            method: &http::Method::POST,
            path: "/v1beta/models/m:generateContent",
            query: "",
        };
        let call = recognize_call(line).unwrap().unwrap().call.unwrap();
        assert_eq!(call.operation, Operation::Generate);
        let text = body.to_owned().into();
        let document = Document::parse(text);
        let edited = document.and_then(|mut it| {
            edit_request_texts(&call, &mut it, &mut Editor { prescans })?;
            Ok(it.to_text())
        });
        edited.map_err(|error| error.to_string())
    }

    fn any_text() -> impl Strategy<Value = Value> {
        "[s5n/\\\\\"\n\té\u{1}🦀 a-d]{0,4}".prop_map(Value::from)
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let number = prop_oneof![
            Just("1E4"),
            Just("-5"),
            Just("4.25"),
            Just("7"),
            Just("3e5")
        ];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            number.prop_map(|it| serde_json::from_str(it).unwrap()),
            any_text(),
            any_text(),
        ];
        leaf.prop_recursive(3, 12, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[sab]{0,3}|parts|inlineData", inner, 0..4)
                    .prop_map(|it| Value::Object(it.into_iter().collect())),
            ]
        })
    }

    fn any_part() -> impl Strategy<Value = Value> {
        let call = prop::collection::btree_map(
            prop_oneof![
                Just("args"),
                Just("name"),
                Just("response"),
                Just("id"),
                Just("parts"),
                Just("code")
            ],
            any_json(),
            0..4,
        );
        let call = prop_oneof![8 => call.prop_map(|it| json!(it)), 1 => any_json()];
        let keys = prop_oneof![
            Just("functionCall"),
            Just("function_response"),
            Just("executableCode"),
            Just("thoughtSignature"),
            Just("inlineData"),
        ];
        let odd_keys = prop_oneof![Just("news"), Just("Text"), Just("text"), Just("Thought")];
        prop_oneof![
            6 => any_text().prop_map(|it| json!({ "text": it })),
            3 => any_text().prop_map(|it| json!({ "thought": true, "text": it })),
            3 => any_text().prop_map(|it| json!({ "text": it, "thoughtSignature": "ss" })),
            6 => (keys, call).prop_map(|(key, it)| json!({ key: it })),
            1 => (odd_keys, any_json()).prop_map(|(key, it)| json!({ key: it })),
        ]
    }

    /// The same JSON with some characters escaped.
    fn spelled(json: &str, every: usize) -> String {
        let mut out = String::new();
        for (at, character) in json.chars().enumerate() {
            let letter = character.is_alphanumeric()
                && !character.is_ascii_digit()
                && !character.is_ascii_lowercase();
            if letter || matches!(character, 's' | '🦀') && at % every == 0 {
                out.push_str(&escaped(character));
            } else {
                out.push(character);
            }
        }
        out
    }

    fn escaped(character: char) -> String {
        let mut units = [0; 2];
        let units = character.encode_utf16(&mut units).iter();
        let units: Vec<String> = units.map(|it| format!("\\u{it:04X}")).collect();
        units.concat()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn skipped_contents_hold_no_text_to_edit(
            contents in prop::collection::vec(prop::collection::vec(any_part(), 0..4), 0..3),
            more in prop::option::weighted(0.1, any_json()),
            pretty in any::<bool>(),
            every in 1..5_usize,
        ) {
            let content = |it: Vec<Value>| match &more {
                None => json!({ "role": "ss", "parts": it }),
                Some(more) => json!({ "role": "ss", "parts": it, "more": more }),
            };
            let contents = contents.into_iter().map(content);
            let body = json!({ "contents": contents.collect::<Vec<_>>() });
            let body = if pretty { format!("{body:#}") } else { body.to_string() };
            // Only strings have letters that can be escapes.
            let body = spelled(&body, every).replace("\\u0045", "E");
            prop_assert_eq!(edited(&body, true), edited(&body, false), "{}", body);
        }
    }

    #[test]
    fn escaped_and_split_texts_are_found() {
        let call = |it: &str| format!(r#"{{"functionCall":{{"args":{it}}}}}"#);
        let parts = [
            r#"{"text":"a\n/"}"#.to_owned(),
            r#"{"text":"\u0073\u0073"}"#.to_owned(),
            r#"{"text":"s"}, {"text":"s"}"#.to_owned(),
            call(r#"{"\u0073s":null}"#),
            call(r#"[1, "\ud83e\udd80"]"#),
            call("[1E4]"),
        ];
        for part in parts {
            let body = format!(r#"{{"contents":[{{"parts":[{part}]}}]}}"#);
            let edited = edited(&body, true).unwrap();
            assert_ne!(edited, body);
        }
    }

    #[test]
    fn escapes_are_decoded() {
        let read = |json: &str| {
            let mut text = String::new();
            unquote(json.strip_prefix('"')?, &mut text).map(|rest| (text, rest.to_owned()))
        };
        let json = r#""a\"\\\/\b\f\n\r\t\u0041\u00e9\uD83E\udd80é", 1"#;
        let meant = "a\"\\/\u{8}\u{c}\n\r\tAé🦀é";
        assert_eq!(read(json), Some((meant.to_owned(), ", 1".to_owned())));
        for wrong in [
            "\"",
            r#""\u12"#,
            r#""\x41""#,
            r#""\ud800""#,
            r#""\ud800\u0041""#,
            r#""\udc00\ud800""#,
            "\"\\",
            "\"\\é\"",
        ] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
