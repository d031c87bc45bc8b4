//! Strings of a JSON text, with their places and the paths that continue one text in the next
//! event of a stream. Tolerant: what is no JSON is reported as such. Pure.

use std::{borrow::Cow, ops::Range};

use memchr::memchr2;

/// Keys whose strings are never a part of a longer text.
const UNJOINED_KEYS: [&[u8]; 16] = [
    b"call_id",
    b"encrypted_content",
    b"finishReason",
    b"finish_reason",
    b"id",
    b"item_id",
    b"model",
    b"modelVersion",
    b"name",
    b"object",
    b"responseId",
    b"role",
    b"signature",
    b"status",
    b"thoughtSignature",
    b"type",
];

/// Keys whose lists hold the parts of one text.
const PART_LISTS: [&[u8]; 2] = [b"parts", b"content"];

/// Keys of numbers, ids and flags that distinguish the texts of a stream.
const INDEX_KEYS: [&[u8]; 6] = [
    b"index",
    b"output_index",
    b"content_index",
    b"summary_index",
    b"item_id",
    b"thought",
];

/// A string or number of a JSON text.
#[derive(Debug)]
pub(super) struct JsonString<'a> {
    /// Place in the text, with the quotes.
    pub(super) place: Range<usize>,
    /// The text without escapes.
    pub(super) text: Cow<'a, str>,
    /// The text that it continues; `None` if it is not joined.
    pub(super) path: Option<u64>,
}

/// The strings of a text.
#[derive(Debug)]
pub(super) struct JsonStrings<'a> {
    pub(super) strings: Vec<JsonString<'a>>,
    /// True if there is nothing but JSON between them.
    pub(super) is_json: bool,
}

/// Kind of a string. Only values continue others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StringKind {
    Key,
    Value,
    /// A number, or what is no JSON.
    Word,
}

/// An object or list that is open.
struct Container<'a> {
    parent: Option<usize>,
    hash: u64,
    /// Hash of the members in [`INDEX_KEYS`]; `false` is like an absent one.
    index: u64,
    key: &'a [u8],
    is_list: bool,
    items: u64,
}

struct Scan<'a> {
    text: &'a str,
    at: usize,
    containers: Vec<Container<'a>>,
    open: Option<usize>,
    /// Strings with their containers.
    strings: Vec<(JsonString<'a>, Option<usize>, u64)>,
    is_json: bool,
}

/// Returns the strings of a text, keys included, and numbers of at least 8 characters.
pub(super) fn scan(text: &str) -> JsonStrings<'_> {
    let mut scan = Scan {
        text,
        at: 0,
        containers: Vec::new(),
        open: None,
        strings: Vec::new(),
        is_json: true,
    };
    while let Some(byte) = scan.byte() {
        scan.step(byte);
    }
    let is_json = scan.is_json && scan.open.is_none();
    let containers = scan.containers;
    // A label in the place of a word needs quotes, which only JSON has.
    let is_kept =
        |string: &JsonString<'_>| is_json || text.as_bytes().get(string.place.start) == Some(&b'"');
    let strings = scan.strings.into_iter();
    let strings = strings.filter(|(string, ..)| is_kept(string));
    let strings = strings.map(|(string, open, key)| JsonString {
        path: string.path.map(|_| path(&containers, open, key)),
        ..string
    });
    JsonStrings {
        strings: strings.collect(),
        is_json,
    }
}

/// Returns the hash of the path of a string.
fn path(containers: &[Container<'_>], mut open: Option<usize>, key: u64) -> u64 {
    let mut hash = key;
    while let Some(container) = open.and_then(|open| containers.get(open)) {
        hash = mix(mix(hash, container.hash), container.index);
        open = container.parent;
    }
    hash
}

impl<'a> Scan<'a> {
    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn step(&mut self, byte: u8) {
        match byte {
            b'"' => self.string(),
            b'{' | b'[' => self.open(byte),
            b'}' | b']' => {
                let open = self.open.and_then(|open| self.containers.get(open));
                self.is_json &= open.is_some();
                self.open = open.and_then(|container| container.parent);
                self.at += 1;
            }
            b',' => {
                if let Some(list) = self.container() {
                    list.items += 1;
                    if !list.is_list {
                        list.key = b"";
                    }
                }
                self.at += 1;
            }
            b':' | b' ' | b'\t' | b'\r' | b'\n' => self.at += 1,
            _ => self.token(),
        }
    }

    fn container(&mut self) -> Option<&mut Container<'a>> {
        self.open.and_then(|open| self.containers.get_mut(open))
    }

    fn open(&mut self, byte: u8) {
        let is_list = byte == b'[';
        // Elements of the outermost list are the events of a stream.
        let hash = match self.container() {
            Some(list) if list.is_list => {
                if list.parent.is_none() || PART_LISTS.contains(&list.key) {
                    0
                } else {
                    list.items
                }
            }
            Some(object) => hash(object.key),
            None => 0,
        };
        let key = self.container().map_or(&b""[..], |container| container.key);
        self.containers.push(Container {
            parent: self.open,
            hash,
            index: 0,
            // A list is named by its key, and an object begins with none.
            key: if is_list { key } else { b"" },
            is_list,
            items: 0,
        });
        self.open = Some(self.containers.len() - 1);
        self.at += 1;
    }

    fn string(&mut self) {
        let start = self.at;
        let Some(end) = string_end(self.text.as_bytes(), start + 1) else {
            (self.is_json, self.at) = (false, self.text.len());
            return;
        };
        self.at = end;
        let raw = self.text.get(start + 1..end - 1).unwrap_or_default();
        let after = self.text.as_bytes().get(end..).unwrap_or_default();
        let is_key = after.trim_ascii_start().starts_with(b":");
        if is_key && let Some(object) = self.container().filter(|container| !container.is_list) {
            object.key = raw.as_bytes();
        }
        let Some(text) = unescaped(raw) else {
            self.is_json = false;
            return;
        };
        let kind = if is_key {
            StringKind::Key
        } else {
            StringKind::Value
        };
        self.add(start..end, text, kind);
    }

    /// Reads a number or a word.
    fn token(&mut self) {
        let start = self.at;
        let rest = self.text.as_bytes().get(start..).unwrap_or_default();
        let length = rest
            .iter()
            .position(|byte| b",:{}[]\" \t\r\n".contains(byte));
        self.at = start + length.unwrap_or(rest.len());
        let token = self.text.get(start..self.at).unwrap_or_default();
        let is_number = token.starts_with(|first: char| first == '-' || first.is_ascii_digit());
        self.is_json &= is_number || ["true", "false", "null"].contains(&token);
        if is_number || token == "true" {
            self.index(token);
        }
        if token.len() >= 8 {
            self.add(start..self.at, Cow::Borrowed(token), StringKind::Word);
        }
    }

    /// Adds a value to the index of the open object, if it is of [`INDEX_KEYS`].
    fn index(&mut self, value: &str) {
        if let Some(object) = self.container()
            && !object.is_list
            && INDEX_KEYS.contains(&object.key)
        {
            let member = mix(hash(object.key), hash(value.as_bytes()));
            object.index = mix(object.index, member);
        }
    }

    fn add(&mut self, place: Range<usize>, text: Cow<'a, str>, kind: StringKind) {
        let open = self.open;
        let is_value = kind == StringKind::Value;
        if is_value {
            self.index(&text);
        }
        let mut path = is_value.then_some(0);
        let mut key = 0;
        if let Some(container) = self.container() {
            let item = container.is_list && !PART_LISTS.contains(&container.key);
            key = mix(hash(container.key), if item { container.items } else { 0 });
            if UNJOINED_KEYS.contains(&container.key) {
                path = None;
            }
        }
        let string = JsonString { place, text, path };
        self.strings.push((string, open, key));
    }
}

/// Returns the position behind the closing quote of a string whose content begins at `at`.
fn string_end(text: &[u8], mut at: usize) -> Option<usize> {
    loop {
        let rest = text.get(at..)?;
        let found = memchr2(b'"', b'\\', rest)?;
        if rest.get(found) == Some(&b'"') {
            return Some(at + found + 1);
        }
        at += found + 2;
    }
}

fn unescaped(raw: &str) -> Option<Cow<'_, str>> {
    if !raw.contains('\\') {
        return Some(Cow::Borrowed(raw));
    }
    serde_json::from_str(&format!("\"{raw}\""))
        .ok()
        .map(Cow::Owned)
}

/// Returns the FNV-1a hash.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn mix(one: u64, other: u64) -> u64 {
    (one.rotate_left(5) ^ other).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path_of(strings: &JsonStrings<'_>, text: &str) -> Option<u64> {
        strings
            .strings
            .iter()
            .find(|string| string.text == text)
            .unwrap()
            .path
    }

    #[test]
    fn strings_keys_and_long_numbers_have_their_positions() {
        let text = r#"{"a":"x\u0041","b":[true,4111111111111111,1]}"#;

        let scanned = scan(text);

        let found: Vec<(&str, &str)> = scanned
            .strings
            .iter()
            .map(|string| (&*string.text, text.get(string.place.clone()).unwrap()))
            .collect();
        assert_eq!(
            found,
            [
                ("a", "\"a\""),
                ("xA", r#""x\u0041""#),
                ("b", "\"b\""),
                ("4111111111111111", "4111111111111111")
            ]
        );
        assert!(scanned.is_json);
    }

    #[test]
    fn a_text_is_continued_where_path_and_index_are_equal() {
        let event = |index: u32, text: &str| {
            format!(
                r#"{{"choices":[{{"delta":{{"content":"{text}","role":"r{text}"}},"index":{index}}}]}}"#
            )
        };
        let (one, two, other) = (event(0, "a"), event(0, "b"), event(1, "c"));
        let (one, two, other) = (scan(&one), scan(&two), scan(&other));

        assert!(path_of(&one, "a").is_some());
        assert_eq!(path_of(&one, "a"), path_of(&two, "b"));
        assert_ne!(path_of(&one, "a"), path_of(&other, "c"));
        assert_eq!(path_of(&one, "ra"), None);
    }

    #[test]
    fn parts_of_a_message_are_one_text_and_messages_are_not() {
        let text =
            r#"{"contents":[{"parts":[{"text":"a"},{"text":"b"}]},{"parts":[{"text":"c"}]}]}"#;
        let scanned = scan(text);

        assert_eq!(path_of(&scanned, "a"), path_of(&scanned, "b"));
        assert_ne!(path_of(&scanned, "a"), path_of(&scanned, "c"));
    }

    #[test]
    fn other_texts_are_no_json() {
        for text in [
            "hello",
            "{\"a\":\"b",
            "{\"a\" b}",
            "]",
            "{\"a\":\"\\q\"}",
            "{",
        ] {
            assert!(!scan(text).is_json, "{text}");
        }
    }
}
