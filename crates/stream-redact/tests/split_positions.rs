//! Masks of a stream that is split at every position.
//!
//! For every detector, a text with a secret in its middle is masked in one to five
//! pieces, split at every position, and character by character.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "a test may panic"
)]

use stream_redact::{DETECTORS, Mask, Style};

/// Largest number of positions at which a text is split at once.
const MAX_SPLITS: usize = 4;

/// A short secret for each detector, in two halves so that secret scanners do not
/// report this file.
const SECRETS: &[(&str, [&str; 2])] = &[
    ("email", ["jo", "@example.com"]),
    ("phone", ["+1 415", " 555 2671"]),
    ("card", ["4111 1111", " 1111 1111"]),
    ("iban", ["DE89 3704 0044", " 0532 0130 00"]),
    ("us_ssn", ["078-05", "-1120"]),
    ("jwt", ["eyJhbGciOiJIUz", ".eyJzdWIiOiI.x"]),
    (
        "private_key",
        [
            "-----BEGIN PRIVATE KEY-----\nA\n",
            "-----END PRIVATE KEY-----",
        ],
    ),
    ("aws_key", ["AKIA", "IOSFODNN7EXAMPLE"]),
    (
        "google_key",
        ["AIza", "SyD-9tSrke72PouQMnMX-a7eZSW0jkFMBWY"],
    ),
    (
        "github_key",
        ["ghp_", "16C7e42F292c6912E7710c838347Ae178B4a"],
    ),
    ("slack_key", ["xoxb-", "2345678901-abc"]),
    ("openai_key", ["sk-", "abcdefghijklmnopqr01"]),
    ("anthropic_key", ["sk-", "ant-api03-abc_DEF-0123456789"]),
    ("url_password", ["db://app:", "s3cr3t@host"]),
];

#[test]
fn a_secret_is_masked_wherever_a_stream_is_split() {
    let names: Vec<&str> = DETECTORS.iter().map(|detector| detector.name).collect();
    let mask = Mask::new(&names, &[], &Style::Label).unwrap();
    for name in names {
        let (_, halves) = SECRETS.iter().find(|(known, _)| *known == name).unwrap();
        let text = format!("é a {} b", halves.concat());
        let whole = mask.mask(&text).unwrap().text;
        assert!(whole.contains(&format!("[REDACTED:{name}]")), "{whole}");
        let trial = SplitTrial {
            mask: &mask,
            text: &text,
            expected: &whole,
        };
        trial.split(&mut vec![0]);
        trial.check(&positions(&text));
    }
}

/// Every position between two characters, the start among them.
fn positions(text: &str) -> Vec<usize> {
    text.char_indices().map(|(at, _)| at).collect()
}

struct SplitTrial<'a> {
    mask: &'a Mask,
    text: &'a str,
    expected: &'a str,
}

impl SplitTrial<'_> {
    /// Checks these splits, and all sets that add more splits behind them.
    fn split(&self, cuts: &mut Vec<usize>) {
        self.check(cuts);
        let last = cuts.last().copied().unwrap_or_default();
        if cuts.len() > MAX_SPLITS {
            return;
        }
        for position in positions(self.text).into_iter().filter(|at| *at > last) {
            cuts.push(position);
            self.split(cuts);
            cuts.pop();
        }
    }

    /// Masks the pieces that begin at `cuts`.
    fn check(&self, cuts: &[usize]) {
        let mut stream = self.mask.stream();
        let mut masked = String::new();
        let ends = cuts.iter().skip(1).copied().chain([self.text.len()]);
        for (from, to) in cuts.iter().copied().zip(ends) {
            masked.push_str(&stream.push(&self.text[from..to]));
        }
        masked.push_str(&stream.finish());
        assert_eq!(masked, self.expected, "split at {cuts:?}");
    }
}
