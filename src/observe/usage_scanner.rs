//! Finds the token counts in the bytes of a response, of any API, without parsing the rest.

use memchr::{memchr, memchr_iter, memmem};

use super::token_usage::TokenUsage;

/// Begin of each key.
const KEY_START: &[u8] = b"\"usage";
const KEYS: [&[u8]; 3] = [b"\"usage\"", b"\"usageMetadata\"", b"\"usage_metadata\""];

/// Bytes at the end of a piece in which a key may be cut, with its colon and blanks.
const MAX_KEY_BYTES: usize = 32;

/// Bytes of a usage that are kept. That of Anthropic's API may list the counts of many iterations.
const MAX_USAGE_BYTES: usize = 8 * 1024;

/// Counts by the names of all APIs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReportedTokens {
    /// Tokens of the request: Google's APIs and Chat Completions.
    prompt: Option<u64>,
    /// Tokens of the answer on these APIs.
    candidates: Option<u64>,
    /// Tokens of thoughts, which Google's APIs do not count as tokens of the answer.
    thoughts: Option<u64>,
    /// All tokens: all APIs but Anthropic's.
    total: Option<u64>,
    /// Tokens of the request from a cache, which other counts include.
    cached: Option<u64>,
    /// Tokens of the request: Responses and Anthropic's API, there without those that are
    /// written to a cache or read from it.
    input: Option<u64>,
    cache_creation: Option<u64>,
    cache_read: Option<u64>,
    /// Tokens of the answer on these APIs.
    output: Option<u64>,
}

/// Finds the token counts of one response. Its first and its last usage count: Anthropic's API
/// has the tokens of the request in the first event of a stream, and those of the answer in the
/// last. The last one is read only on demand, since each chunk of a stream may have one.
///
/// A key inside a text is escaped and does not match.
#[derive(Debug, Default)]
pub struct UsageScanner {
    /// The first usage, if there is a later one.
    first: Option<ReportedTokens>,
    /// The last usage, and what follows it.
    last: Vec<u8>,
    /// The end of the last piece, if it cuts a key.
    cut_key: Vec<u8>,
}

impl UsageScanner {
    /// Reads the next piece.
    pub fn push(&mut self, piece: &[u8]) {
        if self.cut_key.is_empty() {
            return self.scan(piece);
        }
        let mut joined = std::mem::take(&mut self.cut_key);
        joined.extend_from_slice(piece);
        self.scan(&joined);
    }

    fn scan(&mut self, text: &[u8]) {
        let (text, cut_key) = split_cut_key(text);
        self.cut_key = cut_key.to_vec();
        let value = |start| Some((start, usage_value(text.get(start..)?)?));
        let mut values = memmem::find_iter(text, KEY_START).filter_map(value);
        let Some((start, first)) = values.next() else {
            return self.extend_last(text);
        };
        let later = values.last().map(|(_, value)| value);
        if self.first.is_none() {
            self.extend_last(prefix(text, start));
            let earlier = match later {
                _ if !self.last.is_empty() => Some(self.last.as_slice()),
                Some(_) => Some(first),
                None => None,
            };
            self.first = earlier.map(ReportedTokens::parse);
        }
        self.last.clear();
        let last = prefix(later.unwrap_or(first), MAX_USAGE_BYTES);
        self.last.extend_from_slice(last);
    }

    /// Adds what follows the last usage, in which it may be cut.
    fn extend_last(&mut self, text: &[u8]) {
        if !self.last.is_empty() {
            let free = MAX_USAGE_BYTES.saturating_sub(self.last.len());
            self.last.extend_from_slice(prefix(text, free));
        }
    }

    /// Returns the largest counts so far.
    pub fn reported(&self) -> ReportedTokens {
        let last = ReportedTokens::parse(&self.last);
        self.first.map_or(last, |first| first.max(last))
    }

    /// Returns the last token counts so far; `None` if there are none. An earlier object of that
    /// name may be an argument of a tool.
    pub fn usage(&self) -> Option<TokenUsage> {
        let mut last = ReportedTokens::parse(&self.last);
        // Only Anthropic's API has counts that are in the first usage alone.
        if let Some(first) = self.first.filter(|_| last.prompt.or(last.total).is_none()) {
            let latest = |last: Option<u64>, first| last.filter(|count| *count > 0).or(first);
            last.input = latest(last.input, first.input);
            last.cache_creation = latest(last.cache_creation, first.cache_creation);
            last.cache_read = latest(last.cache_read, first.cache_read);
        }
        last.usage()
    }
}

impl ReportedTokens {
    /// Reads the object that a JSON text begins with, which may be cut.
    ///
    /// The counts of Anthropic's API leave out iterations such as a compaction, so that the sums of
    /// all `iterations` count.
    pub fn parse(json: &[u8]) -> Self {
        let (mut reported, mut iterations) = (Self::default(), Self::default());
        let (mut depth, mut name) = (0_usize, &[][..]);
        let mut is_iteration = false;
        let mut rest = json;
        loop {
            let quote = memchr(b'"', rest).unwrap_or(rest.len());
            let (outside, quoted) = rest.split_at(quote);
            let count = if is_iteration {
                iterations.count(name, depth.saturating_sub(1))
            } else {
                reported.count(name, depth)
            };
            if let (Some(count), Some(number)) = (count, number_after_colon(outside)) {
                *count = sum([count.filter(|_| is_iteration), Some(number), None]);
            }
            for byte in outside {
                match byte {
                    b'{' => depth += 1,
                    b'}' => depth = depth.saturating_sub(1),
                    b'[' if depth == 1 => is_iteration = name == b"iterations",
                    b']' if depth == 1 => is_iteration = false,
                    _ => (),
                }
            }
            let Some(quoted) = quoted.get(1..).filter(|_| depth > 0) else {
                return reported.max(iterations);
            };
            let end = memchr(b'"', quoted).unwrap_or(quoted.len());
            name = prefix(quoted, end);
            rest = quoted.get(end + 1..).unwrap_or_default();
        }
    }

    /// Returns the count with a name at a depth of the object.
    fn count(&mut self, name: &[u8], depth: usize) -> Option<&mut Option<u64>> {
        if name == b"cached_tokens" {
            return Some(&mut self.cached);
        }
        // Details and parts of a count may have the same names.
        if depth != 1 {
            return None;
        }
        Some(match name {
            b"promptTokenCount" | b"prompt_token_count" | b"prompt_tokens" => &mut self.prompt,
            b"candidatesTokenCount" | b"candidates_token_count" | b"completion_tokens" => {
                &mut self.candidates
            }
            b"thoughtsTokenCount" | b"thoughts_token_count" => &mut self.thoughts,
            b"totalTokenCount" | b"total_token_count" | b"total_tokens" => &mut self.total,
            b"cachedContentTokenCount" | b"cached_content_token_count" => &mut self.cached,
            b"input_tokens" => &mut self.input,
            b"cache_creation_input_tokens" => &mut self.cache_creation,
            b"cache_read_input_tokens" => &mut self.cache_read,
            b"output_tokens" => &mut self.output,
            _ => return None,
        })
    }

    /// Returns the larger number of each count: each `usage` of a stream has the sums so far.
    fn max(self, other: Self) -> Self {
        Self {
            prompt: self.prompt.max(other.prompt),
            candidates: self.candidates.max(other.candidates),
            thoughts: self.thoughts.max(other.thoughts),
            total: self.total.max(other.total),
            cached: self.cached.max(other.cached),
            input: self.input.max(other.input),
            cache_creation: self.cache_creation.max(other.cache_creation),
            cache_read: self.cache_read.max(other.cache_read),
            output: self.output.max(other.output),
        }
    }

    /// Returns all tokens, as far as they are reported.
    pub fn total(self) -> u64 {
        let input = sum([self.input, self.cache_creation, self.cache_read]);
        let sums = [
            self.total,
            sum([self.prompt, self.candidates, self.thoughts]),
            sum([input, self.output, None]),
        ];
        sums.into_iter().flatten().max().unwrap_or_default()
    }

    /// Returns the tokens of the answer, as far as they are reported.
    pub fn answer(self) -> u64 {
        let prompt = self.usage().and_then(|usage| usage.prompt);
        self.total().saturating_sub(prompt.unwrap_or_default())
    }

    /// Returns the counts in the form of all APIs; `None` if there are none, or all are zero: some
    /// servers begin a stream of Anthropic's API with zeros, and count at its end.
    pub fn usage(self) -> Option<TokenUsage> {
        let input = sum([self.input, self.cache_creation, self.cache_read]);
        let usage = TokenUsage {
            prompt: self.prompt.or(input),
            cached: self.cached.or(self.cache_read),
            candidates: self.candidates.or(self.output),
            total: Some(self.total()).filter(|total| *total > 0),
        };
        let counts = [usage.prompt, usage.cached, usage.candidates, usage.total];
        let is_counted = counts.into_iter().flatten().any(|count| count > 0);
        is_counted.then_some(usage)
    }
}

/// Returns the sum of the counts that are known.
fn sum(counts: [Option<u64>; 3]) -> Option<u64> {
    counts.into_iter().flatten().reduce(u64::saturating_add)
}

/// Returns the object behind the key that a text begins with.
fn usage_value(text: &[u8]) -> Option<&[u8]> {
    let rest = KEYS.iter().find_map(|key| text.strip_prefix(*key))?;
    let value = rest.trim_ascii_start().strip_prefix(b":")?;
    let value = value.trim_ascii_start();
    value.starts_with(b"{").then_some(value)
}

/// Splits off the end of a text that may be the begin of a key.
fn split_cut_key(text: &[u8]) -> (&[u8], &[u8]) {
    let from = text.len().saturating_sub(MAX_KEY_BYTES);
    let end = text.get(from..).unwrap_or_default();
    let is_cut = |at: &usize| end.get(*at..).is_some_and(is_cut_key);
    let cut = memchr_iter(b'"', end).find(is_cut);
    text.split_at(cut.map_or(text.len(), |at| from + at))
}

/// Returns whether a text begins a key, and ends before its value.
fn is_cut_key(text: &[u8]) -> bool {
    let is_blank = |rest: &[u8]| rest.iter().all(|byte| b" \t\r\n:".contains(byte));
    let is_cut =
        |key: &&[u8]| key.starts_with(text) || text.strip_prefix(*key).is_some_and(is_blank);
    KEYS.iter().any(is_cut)
}

fn prefix(text: &[u8], length: usize) -> &[u8] {
    text.get(..length).unwrap_or(text)
}

fn number_after_colon(text: &[u8]) -> Option<u64> {
    let text = text.trim_ascii_start().strip_prefix(b":")?;
    let digits = text.trim_ascii_start().iter();
    let digits = digits.map_while(|byte| char::from(*byte).to_digit(10));
    digits.fold(None, |number: Option<u64>, digit| {
        let number = number.unwrap_or_default().saturating_mul(10);
        Some(number.saturating_add(u64::from(digit)))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns prompt, cached, candidates and total of a response in these pieces.
    fn counts<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Option<[Option<u64>; 4]> {
        let mut scanner = UsageScanner::default();
        for piece in pieces {
            scanner.push(piece);
            assert!(scanner.last.len() <= MAX_USAGE_BYTES);
        }
        let usage = scanner.usage()?;
        Some([usage.prompt, usage.cached, usage.candidates, usage.total])
    }

    fn counts_of(text: &str) -> Option<[Option<u64>; 4]> {
        counts([text.as_bytes()])
    }

    #[test]
    fn each_api_reports_its_usage_in_its_own_fields() {
        let all = Some([Some(11), Some(4), Some(7), Some(18)]);
        for text in [
            r#"{"usageMetadata":{"promptTokenCount":11,"cachedContentTokenCount":4,"candidatesTokenCount":7,"totalTokenCount": 18,"promptTokensDetails":[{"modality":"TEXT","tokenCount":99}]}}"#,
            "{\"usage_metadata\" :\n{\"prompt_token_count\":11,\"cached_content_token_count\":4,\"candidates_token_count\":7,\"total_token_count\":18}}",
            r#"{"usage":{"prompt_tokens":11,"prompt_tokens_details":{"cached_tokens":4},"completion_tokens":7,"total_tokens":18}}"#,
            r#"{"usage":{"input_tokens":11,"input_tokens_details":{"cached_tokens":4},"output_tokens":7,"total_tokens":18},"user":null}"#,
            r#"{"usage":{"input_tokens":5,"cache_creation_input_tokens":2,"cache_read_input_tokens":4,"output_tokens":7,"server_tool_use":{"output_tokens":99}},"input_tokens":99}"#,
            r#"{"usage":{"iterations":[{"type":"compaction","input_tokens":2,"cache_creation_input_tokens":1,"cache_read_input_tokens":3,"output_tokens":6},{"input_tokens":3,"cache_creation":{"input_tokens":99},"cache_creation_input_tokens":1,"cache_read_input_tokens":1,"output_tokens":1}],"input_tokens":3,"cache_creation_input_tokens":1,"cache_read_input_tokens":1,"output_tokens":1}}"#,
        ] {
            assert_eq!(counts_of(text), all, "{text}");
        }
    }

    #[test]
    fn counts_without_a_total_are_added_up() {
        for text in [
            r#"{"usage":{"prompt_tokens":600,"completion_tokens":7}}"#,
            r#"{"usageMetadata":{"promptTokenCount":600,"candidatesTokenCount":7}}"#,
            r#"{"usage":{"prompt_tokens":600,"completion_tokens":7,"total_tokens":0}}"#,
        ] {
            let counts = counts_of(text);
            assert_eq!(counts, Some([Some(600), None, Some(7), Some(607)]));
            let mut scanner = UsageScanner::default();
            scanner.push(text.as_bytes());
            assert_eq!(scanner.reported().total(), 607);
            assert_eq!(scanner.reported().answer(), 7);
        }
        let thoughts = r#"{"usageMetadata":{"promptTokenCount":300,"candidatesTokenCount":4,"thoughtsTokenCount":500}}"#;
        assert_eq!(
            counts_of(thoughts),
            Some([Some(300), None, Some(4), Some(804)])
        );
    }

    #[test]
    fn first_and_last_usage_count_and_text_is_ignored() {
        let started = r#"data: {"message":{"usage":{"input_tokens":9,"output_tokens":1}}}"#;
        let ended = r#"data: {"type":"message_delta","usage":{"output_tokens":31}}"#;
        let expected = Some([Some(9), None, Some(31), Some(40)]);
        let started_first = [started.as_bytes(), ended.as_bytes()];
        assert_eq!(counts(started_first), expected);
        assert_eq!(
            counts_of(&started_first.map(String::from_utf8_lossy).concat()),
            expected
        );
        let argument =
            r#"{"args":{"usage":{"total_tokens":99}},"usageMetadata":{"totalTokenCount":4}}"#;
        assert_eq!(counts_of(argument).unwrap()[3], Some(4));
        let argument = r#"{"input":{"usage":{"prompt_tokens":77,"total_tokens":99}},"usage":{"input_tokens":9,"output_tokens":3}}"#;
        let expected = Some([Some(9), None, Some(3), Some(12)]);
        assert_eq!(counts_of(argument), expected);
        let text = serde_json::json!({ "text": r#""usage":{"total_tokens":77}"# }).to_string();
        for text in [
            text.as_str(),
            "{}",
            r#"{"usage":null}"#,
            r#"{"usage":7}"#,
            r#"{"usage":{"input_tokens":0,"output_tokens":0}}"#,
            r#"{"usages":{"total_tokens":5}}"#,
            r#"{"usage":{"total_tokens":"#,
            r#"{"usage":{"total_tokens":"x"}}"#,
        ] {
            assert_eq!(counts_of(text), None, "{text}");
        }
        let saturated = counts_of(r#"{"usage":{"total_tokens":99999999999999999999999}}"#);
        assert_eq!(saturated.unwrap()[3], Some(u64::MAX));
    }

    proptest! {
        #[test]
        fn cuts_do_not_matter(cuts in prop::collection::vec(0_usize..1200, 0..30)) {
            let filler = "x\"y".repeat(100);
            let whole = format!(
                r#"{{"a":"{filler}","usage":{{"input_tokens":3,"output_tokens":1}},"b":"{filler}","usage" : {{"x":[{{}}],"output_tokens" : 4711}},"usage":null,"b":"{filler}"}}"#
            );
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(whole.len())).collect();
            cuts.sort_unstable();
            let mut pieces = Vec::new();
            let mut start = 0;
            for cut in cuts.into_iter().chain([whole.len()]) {
                pieces.push(&whole.as_bytes()[start..cut]);
                start = cut;
            }
            prop_assert_eq!(counts(pieces), Some([Some(3), None, Some(4711), Some(4714)]));
        }
    }
}
