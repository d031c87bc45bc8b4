//! Whether contents hold a text that its editor wants to change, told from the
//! JSON as it came: most hold none, and nothing of them is parsed. Pure.

use memchr::memchr2;

use super::{
    TextEditor, TextKind,
    contents::PARTS,
    document::text_of,
    request_text::{NAMES, OPAQUE, kind_of},
};
use strict_json::same_field;

/// Whether a list of contents has to be read: the editor would change a text in
/// it, or something is in it that only who reads it can judge. It is known to be
/// JSON that means one thing.
pub(super) fn wants_any(contents: &[u8], editor: &dyn TextEditor) -> bool {
    wants(contents, editor, |it| it.elements(Glance::content))
}

/// The same of one content.
pub(super) fn wants_one(content: &[u8], editor: &dyn TextEditor) -> bool {
    wants(content, editor, Glance::content)
}

fn wants<'t>(
    json: &'t [u8],
    editor: &'t dyn TextEditor,
    look: impl FnOnce(&mut Glance<'t>) -> Option<bool>,
) -> bool {
    let Ok(rest) = text_of(json) else {
        return true;
    };
    let mut glance = Glance {
        rest,
        text: String::new(),
        run: String::new(),
        run_kind: None,
        editor,
    };
    look(&mut glance).unwrap_or(true)
}

/// One way through JSON. Each step tells whether the editor wants to change what it
/// went by; `None`, if that cannot be told.
struct Glance<'t> {
    /// What was not gone by.
    rest: &'t str,
    /// A text as it is meant, without escapes.
    text: String,
    /// The texts of neighbouring parts, which are read as one.
    run: String,
    /// Whether these are thoughts; `None`: there is no such text.
    run_kind: Option<bool>,
    editor: &'t dyn TextEditor,
}

/// What stands in a value, and is none itself.
enum Leaf<'t> {
    /// A string or a key, after its first quote.
    Quoted,
    /// Anything else.
    Word(&'t str),
}

impl<'t> Glance<'t> {
    /// Fields that nobody knows are left to who reads the content.
    fn content(&mut self) -> Option<bool> {
        self.fields(|it, key| match key {
            "role" => it.pass(),
            "parts" => it.parts(),
            _ => None,
        })
    }

    fn parts(&mut self) -> Option<bool> {
        let wants = self.elements(Self::part)?;
        Some(wants || self.goes_on(self.run.len(), None))
    }

    fn part(&mut self) -> Option<bool> {
        let begin = self.run.len();
        let (mut has_text, mut is_thought) = (false, false);
        let wants = self.fields(|it, key| match key {
            "text" => {
                has_text = true;
                it.rest = unquote(it.rest.strip_prefix('"')?, &mut it.run)?;
                Some(false)
            }
            "thought" => {
                is_thought = it.flag()?;
                Some(false)
            }
            key if OPAQUE.contains(&key) => it.pass(),
            key => it.inside(kind_of(key).filter(|it| *it != TextKind::Speech)?),
        })?;
        Some(wants || self.goes_on(begin, has_text.then_some(is_thought)))
    }

    /// The next part, whose text begins here, belongs to the run, or the run ended
    /// before it: whether that would be changed.
    fn goes_on(&mut self, begin: usize, kind: Option<bool>) -> bool {
        let last = std::mem::replace(&mut self.run_kind, kind);
        if last == kind {
            return false;
        }
        let ended = self.run.get(..begin).unwrap_or_default();
        let wants = last.is_some() && self.editor.wants(TextKind::Speech, ended);
        self.run.drain(..begin);
        wants
    }

    /// A call or a result.
    fn inside(&mut self, kind: TextKind) -> Option<bool> {
        if self.rest.starts_with("null") {
            return self.pass();
        }
        self.fields(|it, key| match key {
            key if NAMES.contains(&key) => it.pass(),
            // A result may have parts of its own.
            key if PARTS
                .iter()
                .any(|it| same_field(key.as_bytes(), it.as_bytes())) =>
            {
                None
            }
            _ => it.value(kind),
        })
    }

    /// A value in which every string, number and key is a text.
    fn value(&mut self, kind: TextKind) -> Option<bool> {
        self.leaves(|it, leaf| match leaf {
            Leaf::Quoted => {
                it.text.clear();
                it.rest = unquote(it.rest, &mut it.text)?;
                Some(it.editor.wants(kind, &it.text))
            }
            Leaf::Word("true" | "false" | "null") => Some(false),
            // With an exponent it is not always read as it is written.
            Leaf::Word(number) if number.contains(['e', 'E']) => None,
            Leaf::Word(number) => Some(it.editor.wants(kind, number)),
        })
    }

    /// A value that nobody looks at.
    fn pass(&mut self) -> Option<bool> {
        self.leaves(|it, leaf| {
            if matches!(leaf, Leaf::Quoted) {
                it.rest = after_string(it.rest)?;
            }
            Some(false)
        })
    }

    /// Everything in a value, and nothing after it.
    fn leaves(
        &mut self,
        mut each: impl FnMut(&mut Self, Leaf<'t>) -> Option<bool>,
    ) -> Option<bool> {
        let mut depth = 0_usize;
        loop {
            self.space();
            let first = *self.rest.as_bytes().first()?;
            let leaf = match first {
                b'"' => Some(Leaf::Quoted),
                b'{' | b'[' | b'}' | b']' | b',' | b':' => None,
                _ => Some(Leaf::Word(self.word()?)),
            };
            depth = match first {
                b'{' | b'[' => depth + 1,
                b'}' | b']' => depth.checked_sub(1)?,
                _ => depth,
            };
            if !matches!(leaf, Some(Leaf::Word(_))) {
                self.rest = self.rest.get(1..)?;
            }
            let wants = leaf.map_or(Some(false), |leaf| each(self, leaf))?;
            if wants || depth == 0 {
                return Some(wants);
            }
        }
    }

    /// The fields of an object, by keys without escapes.
    fn fields(&mut self, mut each: impl FnMut(&mut Self, &str) -> Option<bool>) -> Option<bool> {
        self.list('{', '}', |it| {
            let (key, rest) = it.rest.strip_prefix('"')?.split_once('"')?;
            it.rest = rest;
            it.space();
            it.rest = it.rest.strip_prefix(':')?;
            it.space();
            (!key.contains('\\')).then(|| each(it, key))?
        })
    }

    /// The objects of an array.
    fn elements(&mut self, each: impl FnMut(&mut Self) -> Option<bool>) -> Option<bool> {
        self.list('[', ']', each)
    }

    fn list(
        &mut self,
        open: char,
        close: char,
        mut each: impl FnMut(&mut Self) -> Option<bool>,
    ) -> Option<bool> {
        self.space();
        self.rest = self.rest.strip_prefix(open)?;
        loop {
            self.space();
            if let Some(rest) = self.rest.strip_prefix(close) {
                self.rest = rest;
                return Some(false);
            }
            if each(self)? {
                return Some(true);
            }
            self.space();
            self.rest = self.rest.strip_prefix(',').unwrap_or(self.rest);
        }
    }

    fn flag(&mut self) -> Option<bool> {
        match self.word()? {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        }
    }

    /// A number or a name.
    fn word(&mut self) -> Option<&'t str> {
        let is_part = |it: u8| it.is_ascii_alphanumeric() || matches!(it, b'+' | b'-' | b'.');
        let length = self.rest.bytes().take_while(|it| is_part(*it)).count();
        let (word, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        (length > 0).then_some(word)
    }

    fn space(&mut self) {
        // Most JSON has none.
        if self.rest.starts_with([' ', '\n', '\t', '\r']) {
            self.rest = self.rest.trim_ascii_start();
        }
    }
}

/// What follows a string.
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

/// Adds a string to `text` as it is meant. What follows it; `None` if it is none.
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

/// The character that an escape stands for, and what follows; `None` if it is none.
fn unescape(json: &str) -> Option<(char, &str)> {
    let (letter, rest) = json.split_at_checked(1)?;
    let character = match letter {
        "\"" | "\\" | "/" => letter.chars().next()?,
        "n" => '\n',
        "t" => '\t',
        "r" => '\r',
        "b" => '\u{8}',
        "f" => '\u{c}',
        "u" => return unescape_code(rest),
        _ => return None,
    };
    Some((character, rest))
}

fn unescape_code(json: &str) -> Option<(char, &str)> {
    let (first, rest) = code(json)?;
    if let Some(character) = char::from_u32(first) {
        return Some((character, rest));
    }
    let (second, rest) = code(rest.strip_prefix("\\u")?)?;
    let is_pair = (0xd800..0xdc00).contains(&first) && (0xdc00..0xe000).contains(&second);
    let code = is_pair.then(|| 0x1_0000 + ((first & 0x3ff) << 10 | second & 0x3ff))?;
    Some((char::from_u32(code)?, rest))
}

fn code(json: &str) -> Option<(u32, &str)> {
    let (digits, rest) = json.split_at_checked(4)?;
    let is_code = digits.bytes().all(|it| it.is_ascii_hexdigit());
    let code = is_code.then(|| u32::from_str_radix(digits, 16).ok())??;
    Some((code, rest))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::dialect::{Document, Operation, RequestLine, recognise, request_text};

    /// Changes texts that hold one of these; asked first, or not.
    struct Editor {
        is_asked: bool,
    }

    fn changed(text: &str) -> Option<String> {
        let found = ["ss", "5", "\n/", "é\\", "🦀", "e+"]
            .iter()
            .any(|it| text.contains(it));
        found.then(|| text.replace(['s', '5', '/', 'é', '🦀'], "*"))
    }

    impl TextEditor for Editor {
        fn wants(&self, _kind: TextKind, text: &str) -> bool {
            !self.is_asked || changed(text).is_some()
        }

        fn run(&mut self, _kind: TextKind, texts: &mut [String]) -> bool {
            let found = changed(&texts.concat()).is_some();
            for text in texts.iter_mut().filter(|_| found) {
                *text = format!("*{text}");
            }
            found
        }

        fn alone(&mut self, kind: TextKind, text: &str) -> Option<String> {
            changed(text).map(|it| format!("{kind:?}{it}"))
        }
    }

    fn edited(body: &str, is_asked: bool) -> Result<String, String> {
        let line = RequestLine {
            method: &http::Method::POST,
            path: "/v1beta/models/m:generateContent",
            query: "",
        };
        let call = recognise(line).unwrap().unwrap().call.unwrap();
        assert_eq!(call.operation, Operation::Generate);
        let text = body.to_owned().into();
        let document = Document::parse(text);
        let edited = document.and_then(|mut it| {
            request_text::edit(&call, &mut it, &mut Editor { is_asked })?;
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

    /// The same JSON, some of its characters written as escapes.
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
        fn whoever_is_not_asked_would_have_changed_nothing(
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

    /// As it is written nothing would be found.
    #[test]
    fn what_is_written_otherwise_than_it_is_meant_is_found() {
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
    fn escapes_are_read_as_what_they_mean() {
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
