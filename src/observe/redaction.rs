//! Masking of what exchanges hold before it is kept or written. Pure.
//!
//! Strings of JSON are masked without their escapes, also where they are JSON themselves. Texts
//! that are split over the events of a stream, or over the parts, blocks or items of a message,
//! are masked as one text, so that a secret is found wherever it is cut. Tokens with their
//! probabilities are removed, because they spell every secret in pieces.

mod escapes;
mod joined_texts;
mod json_strings;

use std::{borrow::Cow, collections::BTreeMap, iter, ops::Range, sync::Arc};

use memchr::memchr;
use serde_json::Value;
use stream_redact::{DETECTORS, Mask, MaskError, Style};

use self::{
    joined_texts::{JoinedText, JoinedTexts},
    json_strings::{JsonString, MAX_STRINGS, scan},
};

/// Name under which removed tokens are counted.
const LOGPROBS: &str = "logprobs";

/// Masks texts, and counts the masked ones by detector.
#[derive(Debug)]
pub struct Redactor<'a> {
    mask: &'a Mask,
    found: BTreeMap<Arc<str>, u32>,
}

/// Error of a body with more strings than are masked.
#[derive(Debug, PartialEq, Eq)]
pub struct TooManyStrings;

/// A replacement of a part of a text.
struct Splice {
    place: Range<usize>,
    text: String,
}

impl<'a> Redactor<'a> {
    /// Returns a redactor that has found nothing.
    pub const fn new(mask: &'a Mask) -> Self {
        Self {
            mask,
            found: BTreeMap::new(),
        }
    }

    /// Returns whether a text has been masked.
    pub fn has_found(&self) -> bool {
        !self.found.is_empty()
    }

    /// Returns the number of masked texts by the name of the detector or pattern.
    pub fn found(self) -> BTreeMap<String, u32> {
        let found = self.found.into_iter();
        found
            .map(|(name, texts)| (name.to_string(), texts))
            .collect()
    }

    /// Returns whether something in a body would be masked, or it has too many strings. Nothing is
    /// counted.
    pub fn finds(&self, body: &str) -> bool {
        !matches!(Self::new(self.mask).body(body, &mut []), Ok(None))
    }

    /// Masks a text by itself.
    pub fn text(&mut self, text: &mut String) {
        if let Some(masked) = self.mask.mask(text) {
            self.count(masked.detectors);
            *text = masked.text;
        }
    }

    /// Masks the strings and numbers of a value. One with too many strings becomes `null`.
    pub fn value(&mut self, value: &mut Value) {
        match self.body(&value.to_string(), &mut []) {
            Ok(Some(masked)) => *value = serde_json::from_str(&masked).unwrap_or_default(),
            Ok(None) => (),
            Err(TooManyStrings) => *value = Value::Null,
        }
    }

    /// Masks a body: JSON, server-sent events with JSON, or text. `cuts` are positions in it,
    /// in ascending order; a cut within a replaced string moves to its end. Returns `None` if
    /// nothing was found.
    ///
    /// # Errors
    ///
    /// If it has too many strings.
    pub fn body(
        &mut self,
        body: &str,
        cuts: &mut [usize],
    ) -> Result<Option<String>, TooManyStrings> {
        let (edited, is_json) = self.mask_json(body, cuts)?;
        if is_json {
            return Ok(edited);
        }
        // Secrets may be anywhere in what is no JSON.
        let mut plain = edited.clone().unwrap_or_else(|| body.to_owned());
        let before = plain.clone();
        self.text(&mut plain);
        if plain == before {
            return Ok(edited);
        }
        let length = plain.len();
        cuts.fill(length);
        Ok(Some(plain))
    }

    /// Masks the JSON of a body. Returns the masked body, unless nothing was found, and whether
    /// it is nothing but JSON.
    fn mask_json(
        &mut self,
        body: &str,
        cuts: &mut [usize],
    ) -> Result<(Option<String>, bool), TooManyStrings> {
        let mut texts = JoinedTexts::default();
        let (mut is_json, mut has_logprobs, mut joined) = (true, false, 0);
        let mut splices = Vec::new();
        for Range { start, end } in documents(body) {
            let scanned = scan(body.get(start..end).unwrap_or_default());
            let scanned = scanned.filter(|_| joined <= MAX_STRINGS);
            let scanned = scanned.ok_or(TooManyStrings)?;
            let moved = |place: Range<usize>| place.start + start..place.end + start;
            is_json &= scanned.is_json;
            has_logprobs |= !scanned.logprobs.is_empty();
            let logprobs = scanned.logprobs.into_iter().map(moved);
            splices.extend(logprobs.map(|place| Splice::empty(body, place)));
            for mut string in scanned.strings {
                string.place = moved(string.place);
                if let Some(path) = string.path {
                    texts.add(string, path);
                    joined += 1;
                } else {
                    // At once, because most strings are keys, which would fill the memory.
                    self.mask_joined(&JoinedText::new(string), &mut splices)?;
                }
            }
        }
        if has_logprobs {
            self.count(vec![LOGPROBS.into()]);
        }
        for text in texts.into_texts() {
            self.mask_joined(&text, &mut splices)?;
        }
        splices.sort_by_key(|splice| splice.place.start);
        let edited = (!splices.is_empty()).then(|| apply(body, &splices, cuts));
        Ok((edited, is_json))
    }

    /// Masks strings that may be one text.
    fn mask_joined(
        &mut self,
        text: &JoinedText<'_>,
        splices: &mut Vec<Splice>,
    ) -> Result<(), TooManyStrings> {
        let strings = text.strings.iter();
        let mut texts: Vec<Cow<'_, str>> =
            strings.map(|string| Cow::Borrowed(&*string.text)).collect();
        for block in &text.blocks {
            self.mask_nested(&mut texts, block)?;
        }
        let parts: Vec<&str> = texts.iter().map(AsRef::as_ref).collect();
        if let Some(masked) = self.mask.mask_groups(&parts, &text.groups()) {
            self.count(masked.detectors);
            texts = masked.texts.into_iter().map(Cow::Owned).collect();
        }
        let changed = text.strings.iter().zip(texts);
        let changed = changed.filter(|(string, text)| string.text != *text);
        splices.extend(changed.map(|(string, text)| Splice::new(string, text.into_owned())));
        Ok(())
    }

    /// Masks the texts of a block that are JSON with escapes, such as arguments in pieces.
    fn mask_nested(
        &mut self,
        texts: &mut [Cow<'_, str>],
        block: &[usize],
    ) -> Result<(), TooManyStrings> {
        let parts = || block.iter().filter_map(|index| texts.get(*index));
        let mut letters = parts().flat_map(|text| text.chars());
        let first = letters.find(|letter| !letter.is_whitespace());
        let has_escapes = || parts().any(|text| text.contains('\\'));
        if !matches!(first, Some('{' | '[' | '"')) || !has_escapes() {
            return Ok(());
        }
        let mut joined = String::new();
        let cuts = parts().map(|text| {
            joined.push_str(text);
            joined.len()
        });
        let mut cuts: Vec<usize> = cuts.collect();
        let (Some(masked), _) = self.mask_json(&joined, &mut cuts)? else {
            return Ok(());
        };
        let mut start = 0;
        for (index, end) in block.iter().zip(cuts) {
            if let Some(text) = texts.get_mut(*index) {
                *text = masked.get(start..end).unwrap_or_default().to_owned().into();
            }
            start = end;
        }
        Ok(())
    }

    fn count(&mut self, detectors: Vec<Arc<str>>) {
        for detector in detectors {
            *self.found.entry(detector).or_default() += 1;
        }
    }
}

impl Splice {
    fn new(string: &JsonString<'_>, text: String) -> Self {
        let mut text = Value::String(text).to_string();
        if string.is_cut {
            text.pop();
        }
        Self {
            place: string.place.clone(),
            text,
        }
    }

    /// Replaces a list by an empty one, and an object by `null`.
    fn empty(body: &str, place: Range<usize>) -> Self {
        let is_list = body.as_bytes().get(place.start) == Some(&b'[');
        let text = if is_list { "[]" } else { "null" };
        Self {
            place,
            text: text.to_owned(),
        }
    }
}

/// Patterns of secrets by name.
pub type MaskPatterns = BTreeMap<String, String>;

/// Compiles all detectors, and further patterns by name.
///
/// # Errors
///
/// If a pattern cannot be compiled.
pub fn full_mask(patterns: &MaskPatterns) -> Result<Mask, MaskError> {
    let detectors: Vec<&str> = DETECTORS.iter().map(|detector| detector.name).collect();
    let patterns = patterns.iter();
    let patterns: Vec<(&str, &str)> = patterns
        .map(|(name, pattern)| (name.as_str(), pattern.as_str()))
        .collect();
    Mask::new(&detectors, &patterns, &Style::Label)
}

/// Returns the places of the documents of a body: the data of server-sent events, or all of it.
fn documents(body: &str) -> Vec<Range<usize>> {
    let start = body.trim_start();
    let fields = ["data:", "event:", "id:", ":", "retry:"];
    if !fields.iter().any(|field| start.starts_with(field)) {
        return iter::once(0..body.len()).collect();
    }
    let (mut places, mut at) = (Vec::new(), 0);
    while at < body.len() {
        let rest = body.as_bytes().get(at..).unwrap_or_default();
        let length = memchr(b'\n', rest).unwrap_or(rest.len());
        let line = rest.get(..length).unwrap_or_default();
        let is_json = |data: &[u8]| matches!(data.trim_ascii_start().first(), Some(b'{' | b'['));
        match line.strip_prefix(b"data:") {
            Some(b" [DONE]" | b"[DONE]" | b" [DONE]\r") => (),
            Some(data) if is_json(data) => places.push(at + 5..at + length),
            None if is_without_text(line) => (),
            _ => places.push(at..at + length),
        }
        at += length + 1;
    }
    places
}

/// Returns whether a line is empty, or has nothing but the name of an event.
fn is_without_text(line: &[u8]) -> bool {
    let line = line.trim_ascii();
    let name = line.strip_prefix(b"event:").map(<[u8]>::trim_ascii);
    let is_name = |name: &[u8]| {
        let mut bytes = name.iter();
        bytes.all(|byte| byte.is_ascii_lowercase() || matches!(byte, b'.' | b'_'))
    };
    line.is_empty() || line == b":" || name.is_some_and(is_name)
}

/// Replaces parts of a text, and moves the cuts with it.
fn apply(text: &str, splices: &[Splice], cuts: &mut [usize]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    let mut cuts = cuts.iter_mut().peekable();
    for splice in splices {
        let before = out.len();
        while let Some(cut) = cuts.next_if(|cut| **cut <= splice.place.start) {
            *cut = before + (*cut - at);
        }
        out.push_str(text.get(at..splice.place.start).unwrap_or_default());
        out.push_str(&splice.text);
        at = splice.place.end;
        while let Some(cut) = cuts.next_if(|cut| **cut <= at) {
            *cut = out.len();
        }
    }
    for cut in cuts {
        *cut = out.len() + (*cut - at);
    }
    out.push_str(text.get(at..).unwrap_or_default());
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn mask() -> Mask {
        let pattern = ("ticket".to_owned(), "TICKET-[0-9]{4}".to_owned());
        full_mask(&BTreeMap::from([pattern])).unwrap()
    }

    fn masked(body: &str) -> String {
        let mask = mask();
        let masked = Redactor::new(&mask).body(body, &mut []).unwrap();
        masked.unwrap_or_else(|| body.to_owned())
    }

    #[test]
    fn secrets_in_json_are_masked_whatever_their_escapes() {
        assert_eq!(
            masked(r#"{"a": "AKIA\u0049OSFODNN7EXAMPLE", "john@example.com":[1.50,true]}"#),
            r#"{"a": "[REDACTED:aws_key]", "[REDACTED:email]":[1.50,true]}"#
        );
        assert_eq!(masked(r#"{"a":"b"}"#), r#"{"a":"b"}"#);
    }

    #[test]
    fn a_secret_is_masked_at_every_cut_of_a_stream() {
        let secret = "TICKET-0042";
        for cut in 0..=secret.len() {
            let (one, two) = secret.split_at(cut);
            let google = |text: &str| {
                format!(
                    "data: {{\"candidates\":[{{\"content\":{{\"parts\":[{{\"text\":\"{text}\"}}]}},\"index\":0}}]}}\r\n\r\n"
                )
            };
            let anthropic = |text: &str| {
                format!(
                    "event: content_block_delta\ndata: {{\"type\":\"content_block_delta\",\"index\":1,\"delta\":{{\"type\":\"text_delta\",\"text\":\"{text}\"}}}}\n\n"
                )
            };
            let responses = |text: &str| {
                format!(
                    "data: {{\"type\":\"response.output_text.delta\",\"item_id\":\"msg_1\",\"output_index\":0,\"content_index\":0,\"delta\":\"{text}\"}}\n\n"
                )
            };
            let array = |text: &str| {
                format!(
                    "{{\"candidates\":[{{\"content\":{{\"parts\":[{{\"text\":\"{text}\"}}]}}}}]}}"
                )
            };
            for body in [
                google("see ") + &google(one) + &google(two) + &google(" now"),
                anthropic("see ") + &anthropic(one) + &anthropic(two),
                responses(one) + &responses(two) + "data: [DONE]\n\n",
                format!("[{},\n{}]", array(one), array(two)),
                format!(
                    "{{\"messages\":[{{\"content\":[{{\"text\":\"{one}\"}},{{\"text\":\"{two}\"}}]}}]}}"
                ),
            ] {
                let masked = masked(&body);
                assert!(masked.contains("[REDACTED:ticket]"), "{masked}");
                let texts = |text: &str| {
                    text.matches("\"text\":\"").count() + text.matches("\"delta\":\"").count()
                };
                assert_eq!(texts(&masked), texts(&body));
                assert!(
                    cut == 0 || cut == secret.len() || !masked.contains(&format!("\"{two}\"")),
                    "{masked}"
                );
            }
        }
    }

    #[test]
    fn a_secret_is_masked_beside_and_around_thoughts() {
        let google = |part: &str| {
            format!("data: {{\"candidates\":[{{\"content\":{{\"parts\":[{part}]}}}}]}}\n\n")
        };
        let text = |text: &str| google(&format!(r#"{{"text":"{text}"}}"#));
        let thought = |text: &str| google(&format!(r#"{{"thought":true,"text":"{text}"}}"#));
        let summary = |index: u32, text: &str| {
            let event = r#""output_index":0,"item_id":"rs_1""#;
            format!("data: {{{event},\"summary_index\":{index},\"delta\":\"{text}\"}}\n\n")
        };
        for body in [
            text("AKIAIOS") + &thought("Hmm") + &text("FODNN7EXAMPLE"),
            text("AKIAIOS") + &text("FODNN7EXAMPLE") + &thought("Hmm"),
            thought("Hmm") + &text("AKIAIOS") + &text("FODNN7EXAMPLE"),
            thought("AKIAIOS") + &thought("FODNN7EXAMPLE") + &text("Hmm"),
            text("AKIAIOS")
                + &google(
                    r#"{"text":"Hmm","thought":true},{"text":"FODNN7EXAMPLE","thought":false}"#,
                ),
            summary(0, "AKIAIOS") + &summary(0, "FODNN7EXAMPLE") + &summary(1, "Hmm"),
        ] {
            let masked = masked(&body);
            assert!(masked.contains("\"[REDACTED:aws_key]\""), "{masked}");
            assert!(masked.contains("\"Hmm\""), "{masked}");
            assert!(!masked.contains("FODNN7EXAMPLE"), "{masked}");
        }
    }

    #[test]
    fn a_secret_in_a_text_that_is_no_json_is_masked() {
        for body in [
            "write to john@example.com",
            "{john@example.com}",
            "{\"a\":\"john@example.com",
            "data: john@example.com\n\n",
            "data: {\"a\":\nx john@example.com\n",
            ": mail john@example.com\ndata: {}\n\n",
            "event: a\nid: john@example.com\ndata: {}\n\n",
            "event: john@example.com\ndata: {}\n\n",
        ] {
            assert!(!masked(body).contains("john@"), "{body}");
        }
    }

    #[test]
    fn a_secret_is_masked_beside_the_text_of_another_part() {
        let results = r#"{"content":[{"content":"total 0"},{"content":"AKIAIOSFODNN7EXAMPLE"}]}"#;
        let parts = r#"{"parts":[{"text":"foo"},{"text":"AKIAIOSFODNN7EXAMPLE"}]}"#;
        for body in [results, parts] {
            let expected = body.replace("AKIAIOSFODNN7EXAMPLE", "[REDACTED:aws_key]");
            assert_eq!(masked(body), expected);
        }
    }

    /// Masks events of a stream, and returns the masked body.
    fn masked_events(events: &[Value]) -> String {
        let events = events.iter().map(|event| format!("data: {event}\n\n"));
        masked(&events.collect::<String>())
    }

    #[test]
    fn a_secret_that_blocks_or_items_split_is_masked() {
        let (one, two) = ("for ann@exa", "mple.com x");
        let block = |index: u32, text: &str| {
            let delta = json!({ "type": "text_delta", "text": text });
            json!({ "type": "content_block_delta", "index": index, "delta": delta })
        };
        let begun = json!({ "index": 0, "content_block": { "type": "text", "text": one } });
        let item = |index: u32, key: &str, text: &str| {
            let id = format!("msg_{index}");
            json!({ "item_id": id, "output_index": index, "content_index": 0, key: text })
        };
        let message = |text: &str| json!({ "type": "message", "content": [{ "text": text }] });
        let output = json!([message(one), message(two)]);
        let parts = json!([{ "type": "text", "text": one }, { "type": "text", "text": two }]);
        for body in [
            masked_events(&[block(1, one), block(2, two)]),
            masked_events(&[begun, block(0, two)]),
            masked_events(&[item(0, "delta", one), item(1, "delta", two)]),
            masked_events(&[item(0, "text", one), item(1, "text", two)]),
            masked_events(&[json!({ "response": { "output": output } })]),
            masked(&json!({ "output": output }).to_string()),
            masked(&json!({ "system": parts }).to_string()),
            masked(&json!({ "input": [{ "output": parts }] }).to_string()),
        ] {
            let expected = ["\"for [REDACTED:email]\"", "\" x\""];
            assert!(expected.iter().all(|text| body.contains(text)), "{body}");
        }
    }

    #[test]
    fn a_secret_that_is_split_also_ends_beside_other_blocks() {
        let item = |id: &str, text: &str| json!({ "item_id": id, "delta": text });
        let (one, two) = ("AKIAIOS", "FODNN7EXAMPLE");

        let body = masked_events(&[
            item("a", one),
            item("b", "said"),
            item("a", two),
            item("b", " more"),
        ]);

        assert!(!body.contains(two) && body.contains("said"), "{body}");
    }

    #[test]
    fn a_secret_in_json_in_a_string_is_masked_whatever_its_escapes() {
        let arguments = r#"{"a":"to ar\u0040example.com, x","b":"\u00e4"}"#;
        let expected = r#"{"a":"to [REDACTED:email], x","b":"\u00e4"}"#;
        let whole = |text: &str| json!({ "arguments": text }).to_string();
        assert_eq!(masked(&whole(arguments)), whole(expected));
        assert_eq!(masked(&whole(&whole(arguments))), whole(&whole(expected)));
        for (cut, _) in arguments.char_indices() {
            let (one, two) = arguments.split_at(cut);
            let delta = |text: &str| json!({ "index": 1, "delta": { "partial_json": text } });

            let body = masked_events(&[delta(one), delta(two)]);

            let events = documents(&body).into_iter();
            let events =
                events.map(|place| serde_json::from_str(body.get(place).unwrap()).unwrap());
            let pieces = events.map(|event: Value| event["delta"]["partial_json"].clone());
            let pieces: Vec<Value> = pieces.collect();
            let pieces: Vec<&str> = pieces.iter().filter_map(Value::as_str).collect();
            assert_eq!(pieces.concat(), expected);
        }
    }

    #[test]
    fn a_secret_in_arguments_without_an_end_is_masked() {
        let arguments = r#"{"a":"ar\u0040example.com or \u00"#;

        let body = masked(&json!({ "arguments": arguments }).to_string());

        let expected = r#"{"a":"[REDACTED:email] or \u00"#;
        assert_eq!(body, json!({ "arguments": expected }).to_string());
    }

    #[test]
    fn tokens_with_probabilities_are_removed() {
        let tokens = json!([{ "token": "ann", "bytes": [97] }, { "token": "@example.com" }]);
        let body = json!({
            "choices": [{ "logprobs": { "content": tokens } }],
            "candidates": [{ "logprobsResult": { "chosenCandidates": tokens } }],
            "output": [{ "logprobs": tokens }],
            "logprobs": true,
            "tools": { "properties": { "logprobs": { "type": "integer" } } },
        });
        let mask = mask();
        let mut redactor = Redactor::new(&mask);

        let masked = redactor.body(&body.to_string(), &mut []).unwrap().unwrap();

        let expected = json!({
            "choices": [{ "logprobs": null }],
            "candidates": [{ "logprobsResult": null }],
            "output": [{ "logprobs": [] }],
            "logprobs": true,
            "tools": { "properties": { "logprobs": { "type": "integer" } } },
        });
        assert_eq!(masked, expected.to_string());
        let found = BTreeMap::from([("logprobs".to_owned(), 1)]);
        assert_eq!(redactor.found(), found);
    }

    #[test]
    fn probabilities_within_others_leave_json_and_masks() {
        let tokens = json!({ "token": "x", "logprobs": { "token": "y" }, "b": "ann@example.com" });
        let body = json!({ "args": { "logprobs": tokens }, "c": "john@example.com" });

        let expected = json!({ "args": { "logprobs": null }, "c": "[REDACTED:email]" });
        assert_eq!(masked(&body.to_string()), expected.to_string());
    }

    #[test]
    fn a_secret_is_masked_beside_lone_surrogates() {
        let texts = [
            "key AKIAIOS",
            r"FODNN7EXAMPLE \ud83d",
            r"\ude00 write john\u0040example.com",
        ];
        let event = |text: &&str| format!("data: {{\"delta\":\"{text}\"}}\n\n");

        let body = masked(&texts.iter().map(event).collect::<String>());

        let expected = [
            "key [REDACTED:aws_key]",
            " \u{fffd}",
            "\u{fffd} write [REDACTED:email]",
        ];
        let expected = expected.iter().map(event);
        assert_eq!(body, expected.collect::<String>());
    }

    #[test]
    fn a_secret_in_a_quoted_string_in_a_string_is_masked() {
        let whole = |text: &str| json!({ "arguments": text }).to_string();

        let body = masked(&whole(r#""x john\u0040example.com""#));

        assert_eq!(body, whole(r#""x [REDACTED:email]""#));
    }

    #[test]
    fn a_body_with_too_many_strings_is_not_masked() {
        let event = format!("data: [{}1]\n\n", r#""a","#.repeat(MAX_STRINGS / 2));
        let mask = mask();

        let masked = Redactor::new(&mask).body(&event.repeat(4), &mut []);

        assert_eq!(masked, Err(TooManyStrings));
    }

    #[test]
    fn numbers_of_a_value_are_masked() {
        let mask = mask();
        let mut redactor = Redactor::new(&mask);
        let mut value = json!({ "card": 4_111_111_111_111_111_u64, "count": 17 });

        redactor.value(&mut value);

        let expected = json!({ "card": "[REDACTED:card]", "count": 17 });
        assert_eq!(value, expected);
        assert_eq!(redactor.found(), BTreeMap::from([("card".to_owned(), 1)]));
    }

    #[test]
    fn chunk_boundaries_keep_their_positions_between_replaced_strings() {
        let body = r#"{"a":"x","b":"john@example.com","c":"y"}"#;
        let marks = [0, 8, 20, 32, body.len()];
        let mut cuts = marks;
        let mask = mask();

        let out = Redactor::new(&mask).body(body, &mut cuts).unwrap().unwrap();

        assert_eq!(out, r#"{"a":"x","b":"[REDACTED:email]","c":"y"}"#);
        let pieces: Vec<&str> = cuts
            .windows(2)
            .map(|cut| out.get(cut[0]..cut[1]).unwrap())
            .collect();
        assert_eq!(
            pieces,
            [
                r#"{"a":"x""#,
                r#","b":"[REDACTED:email]""#,
                ",",
                r#""c":"y"}"#
            ]
        );
    }
}
