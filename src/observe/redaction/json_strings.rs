//! Strings of a JSON text, with their places and the paths that continue one text in the next
//! event, block or item. Tolerant: what is no JSON is reported as such. Pure.

use std::{borrow::Cow, ops::Range};

use serde::de::IgnoredAny;
use strict_json::{ESCAPE_BYTES, MAX_DEPTH, unescaped_lossy};

use super::escapes::{string_end, unescaped};

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
const PART_LISTS: [&[u8]; 5] = [b"parts", b"content", b"system", b"output", b"summary"];

/// Keys of numbers, ids and flags that distinguish the texts of a stream.
const INDEX_KEYS: [&[u8]; 6] = [
    b"index",
    b"output_index",
    b"content_index",
    b"summary_index",
    b"item_id",
    b"thought",
];

/// Keys of tokens with their probabilities, which spell texts in pieces.
const LOGPROBS_KEYS: [&[u8]; 3] = [b"logprobs", b"logprobsResult", b"logprobs_result"];

/// Keys that only tokens with their probabilities have.
const TOKEN_KEYS: [&str; 2] = ["token", "tokens"];

/// Strings, lists and objects of a text; each takes some hundred bytes of memory. The largest batch
/// of embeddings of Gemini has 307,200 numbers.
pub(super) const MAX_STRINGS: usize = 512 * 1024;

/// A string or number of a JSON text.
#[derive(Debug)]
pub(super) struct JsonString<'a> {
    /// Place in the text, with the quotes.
    pub(super) place: Range<usize>,
    /// The text without escapes.
    pub(super) text: Cow<'a, str>,
    /// The texts that it continues; `None` if it is not joined.
    pub(super) path: Option<TextPath>,
    /// True if the text ends within it.
    pub(super) is_cut: bool,
}

/// Hashes of the texts that a string continues.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct TextPath {
    /// The text of one block or item.
    pub(super) block: u64,
    /// The text of all blocks and items of the stream.
    pub(super) message: u64,
}

/// The strings of a text.
#[derive(Debug)]
pub(super) struct JsonStrings<'a> {
    pub(super) strings: Vec<JsonString<'a>>,
    /// Places of tokens with their probabilities. Their strings are left out.
    pub(super) logprobs: Vec<Range<usize>>,
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
    depth: usize,
    hash: u64,
    /// Hash of the members in [`INDEX_KEYS`]; `false` is like an absent one.
    index: u64,
    key: &'a [u8],
    is_list: bool,
    /// True for a document and an event of a stream.
    is_event: bool,
    items: u64,
    /// Start, and number of the strings before it, if its key is of [`LOGPROBS_KEYS`].
    logprobs: Option<(usize, usize)>,
}

struct Scan<'a> {
    text: &'a str,
    at: usize,
    containers: Vec<Container<'a>>,
    open: Option<usize>,
    /// Strings with their containers.
    strings: Vec<(JsonString<'a>, Option<usize>, u64)>,
    logprobs: Vec<Range<usize>>,
    is_json: bool,
}

/// Returns the strings of a text, keys included, and numbers of at least 8 characters; `None` if
/// there are more than [`MAX_STRINGS`]. Below [`MAX_DEPTH`], strings continue no others, and tokens
/// with their probabilities are strings like others.
pub(super) fn scan(text: &str) -> Option<JsonStrings<'_>> {
    let mut scan = Scan {
        text,
        at: 0,
        containers: Vec::new(),
        open: None,
        strings: Vec::new(),
        logprobs: Vec::new(),
        is_json: true,
    };
    while let Some(byte) = scan.byte() {
        scan.step(byte);
        if scan.strings.len() + scan.containers.len() > MAX_STRINGS {
            return None;
        }
    }
    let is_json = scan.is_json && scan.open.is_none();
    // Containers without an end.
    while scan.open.is_some() {
        scan.close();
    }
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
    Some(JsonStrings {
        strings: strings.collect(),
        logprobs: scan.logprobs,
        is_json,
    })
}

/// Returns the hashes of the path of a string.
fn path(containers: &[Container<'_>], mut open: Option<usize>, key: u64) -> TextPath {
    let (mut block, mut message) = (key, key);
    while let Some(container) = open.and_then(|open| containers.get(open)) {
        block = mix(mix(block, container.hash), container.index);
        // The index of an event is that of its block or item.
        let index = if container.is_event {
            0
        } else {
            container.index
        };
        message = mix(mix(message, container.hash), index);
        open = container.parent;
    }
    TextPath { block, message }
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
                self.at += 1;
                self.close();
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

    /// Closes the container that is open.
    fn close(&mut self) {
        let open = self.open.and_then(|open| self.containers.get(open));
        let Some(container) = open else {
            self.is_json = false;
            return;
        };
        self.open = container.parent;
        let Some((start, before)) = container.logprobs else {
            return;
        };
        let mut strings = self.strings.iter().skip(before);
        if strings.any(|(string, ..)| TOKEN_KEYS.contains(&&*string.text)) {
            self.strings.truncate(before);
            while self.logprobs.pop_if(|inner| inner.start > start).is_some() {}
            self.logprobs.push(start..self.at);
        }
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
            // The text in the start of a block of the Messages API continues in its deltas.
            Some(object) if object.key == b"content_block" => hash(b"delta"),
            Some(object) => hash(object.key),
            None => 0,
        };
        let parent = self.open.and_then(|open| self.containers.get(open));
        let key = parent.map_or(&b""[..], |parent| parent.key);
        let depth = parent.map_or(1, |parent| parent.depth + 1);
        let is_member = parent.is_some_and(|parent| !parent.is_list);
        let is_logprobs = is_member && depth <= MAX_DEPTH && LOGPROBS_KEYS.contains(&key);
        let is_outermost = parent.is_none_or(|list| list.is_list && list.parent.is_none());
        self.containers.push(Container {
            parent: self.open,
            depth,
            hash,
            index: 0,
            // A list is named by its key, and an object begins with none.
            key: if is_list { key } else { b"" },
            is_list,
            is_event: is_outermost && !is_list,
            items: 0,
            logprobs: is_logprobs.then_some((self.at, self.strings.len())),
        });
        self.open = Some(self.containers.len() - 1);
        self.at += 1;
    }

    fn string(&mut self) {
        let start = self.at;
        let Some(end) = string_end(self.text.as_bytes(), start + 1) else {
            self.cut_string(start);
            return;
        };
        self.at = end;
        let raw = self.text.get(start + 1..end - 1).unwrap_or_default();
        let after = self.text.as_bytes().get(end..).unwrap_or_default();
        let is_key = after.trim_ascii_start().starts_with(b":");
        if is_key && let Some(object) = self.container().filter(|container| !container.is_list) {
            object.key = raw.as_bytes();
        }
        let text = unescaped(raw).unwrap_or_else(|| {
            // The grammar of JSON allows lone surrogates.
            let quoted = self.text.get(start..end).unwrap_or_default();
            self.is_json &= serde_json::from_str::<IgnoredAny>(quoted).is_ok();
            unescaped_lossy(raw).into()
        });
        let kind = if is_key {
            StringKind::Key
        } else {
            StringKind::Value
        };
        self.add(start..end, text, kind);
    }

    /// Reads a string without an end, up to an escape without an end.
    fn cut_string(&mut self, start: usize) {
        (self.is_json, self.at) = (false, self.text.len());
        let mut raw = self.text.get(start + 1..).unwrap_or_default();
        let mut text = unescaped(raw);
        // Of a pair of escapes, the second one may be cut, or absent.
        for _ in 0..2 {
            let last = raw.rfind('\\').filter(|at| raw.len() - at <= ESCAPE_BYTES);
            if text.is_none()
                && let Some(last) = last
            {
                raw = raw.get(..last).unwrap_or_default();
                text = unescaped(raw);
            }
        }
        let text = text.unwrap_or_else(|| unescaped_lossy(raw).into());
        self.add(start..start + 1 + raw.len(), text, StringKind::Value);
        if let Some((string, ..)) = self.strings.last_mut() {
            string.is_cut = true;
        }
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
        let mut path = is_value.then(TextPath::default);
        let mut key = 0;
        if let Some(container) = self.container() {
            let item = container.is_list && !PART_LISTS.contains(&container.key);
            key = mix(hash(container.key), if item { container.items } else { 0 });
            if container.depth > MAX_DEPTH || UNJOINED_KEYS.contains(&container.key) {
                path = None;
            }
        }
        let string = JsonString {
            place,
            text,
            path,
            is_cut: false,
        };
        self.strings.push((string, open, key));
    }
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

    fn scan(text: &str) -> JsonStrings<'_> {
        super::scan(text).unwrap()
    }

    fn path_of(strings: &JsonStrings<'_>, text: &str) -> Option<TextPath> {
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
    fn blocks_of_a_stream_continue_one_message_and_choices_do_not() {
        let block = |index: u32, text: &str| {
            format!(
                r#"{{"type":"content_block_delta","index":{index},"delta":{{"text":"{text}"}}}}"#
            )
        };
        let choice = |index: u32, text: &str| {
            format!(r#"{{"choices":[{{"index":{index},"delta":{{"content":"{text}"}}}}]}}"#)
        };
        let path = |event: String, text: &str| path_of(&scan(&event), text).unwrap();

        let blocks = (path(block(0, "a"), "a"), path(block(1, "b"), "b"));
        let choices = (path(choice(0, "a"), "a"), path(choice(1, "b"), "b"));

        assert_ne!(blocks.0.block, blocks.1.block);
        assert_eq!(blocks.0.message, blocks.1.message);
        assert_ne!(choices.0.message, choices.1.message);
    }

    #[test]
    fn tokens_with_probabilities_are_places_without_strings() {
        let tokens = r#"{"content":[{"token":"a","bytes":[97]}]}"#;
        let text = format!(r#"{{"a":{{"logprobs":{tokens},"b":"c"}},"logprobs":[]}}"#);
        let (scanned, start) = (scan(&text), text.find(tokens).unwrap());

        let found = scanned.strings.iter().map(|string| &*string.text);
        let found: Vec<&str> = found.collect();

        assert_eq!(found, ["a", "logprobs", "b", "c", "logprobs"]);
        let place = start..start + tokens.len();
        assert_eq!((scanned.logprobs, scanned.is_json), (vec![place], true));
    }

    #[test]
    fn probabilities_within_others_are_one_place() {
        let tokens = r#"{"token":"x","logprobs":{"token":"y"},"b":"c"}"#;
        let text = format!(r#"{{"logprobs":{tokens}}}"#);

        let scanned = scan(&text);

        assert_eq!(scanned.logprobs, vec![12..12 + tokens.len()]);
        assert_eq!(scanned.strings.len(), 1);
    }

    #[test]
    fn a_lone_surrogate_is_replaced_and_other_escapes_are_decoded() {
        for (raw, expected) in [
            (r"a\ud83d b\u0040c", "a\u{fffd} b@c"),
            (r"\ude00\ud83d\ude00\n", "\u{fffd}\u{1f600}\n"),
            (r"\ud83d\ud83d\ude00", "\u{fffd}\u{1f600}"),
            (r"\\ud83d \ud83d", "\\ud83d \u{fffd}"),
        ] {
            let text = format!("{{\"a\":\"{raw}\"}}");
            let scanned = scan(&text);
            assert!(scanned.is_json, "{text}");
            assert_eq!(scanned.strings[1].text, expected);
            assert!(scanned.strings[1].path.is_some());
        }
        let invalid = scan(r#"{"a":"\q \ü \u00 \n"}"#);
        assert_eq!(invalid.strings[1].text, "\\q \\ü \\u00 \n");
        assert!(!invalid.is_json);
    }

    #[test]
    fn strings_of_a_deep_text_are_read_once() {
        let depth = 100_000;
        let strings = r#""a","#.repeat(50_000);
        let text = "[".repeat(depth) + &strings + &"]".repeat(depth);

        let scanned = scan(&text);

        assert!(scanned.strings.iter().all(|string| string.path.is_none()));
        assert_eq!(scanned.strings.len(), 50_000);
    }

    #[test]
    fn a_text_with_too_many_strings_or_lists_is_not_read() {
        for item in ["\"a\",", "[],"] {
            let text = format!("[{}1]", item.repeat(MAX_STRINGS));
            assert!(super::scan(&text).is_none());
        }
    }

    #[test]
    fn a_string_without_an_end_is_read_up_to_a_cut_escape() {
        for (text, expected) in [
            ("{\"a\":\"b\\ud83d and \\u0040c", "b\u{fffd} and @c"),
            ("{\"a\":\"b\\u0040c", "b@c"),
            ("{\"a\":\"b\\u00", "b"),
            ("{\"a\":\"b\\ud83d\\ude", "b"),
            ("{\"a\":\"b\\", "b"),
        ] {
            let scanned = scan(text);
            let last = scanned.strings.last().unwrap();
            assert_eq!((&*last.text, last.is_cut), (expected, true), "{text}");
        }
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
