//! Every way of cutting a secret: `cargo run --release --example cuts`.
//!
//! For every detector a text with a secret in its middle is masked in one, two,
//! three, four and five pieces, cut at every place, and character by character.
//! Fails unless each comes out like the whole.

#![expect(clippy::print_stdout, reason = "a proof tells what it tried")]

use std::{error::Error, process::ExitCode};

use stream_redact::{DETECTORS, Mask, Style};

/// The most places at which a text is cut at once.
const MOST_CUTS: usize = 4;

/// A short secret for each detector; in two halves, so that nobody who looks for
/// secrets finds one here.
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

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let names: Vec<&str> = DETECTORS.iter().map(|it| it.name).collect();
    let mask = Mask::new(&names, &[], &Style::Label)?;
    let mut wrong = 0;
    for name in names {
        let known = SECRETS.iter().find(|it| it.0 == name);
        let halves = known.ok_or("a detector without a secret here")?.1;
        let text = format!("é a {} b", halves.concat());
        let whole = mask.conceal(&text).ok_or("the whole is not masked")?;
        if !whole.text.contains(&format!("[REDACTED:{name}]")) {
            return Err(format!("{name}: {}", whole.text).into());
        }
        let mut trial = Trial {
            mask: &mask,
            text: &text,
            whole: &whole.text,
            tried: 0,
            wrong: 0,
        };
        trial.cut(&mut vec![0]);
        trial.try_cuts(&places(&text));
        println!("{name:<14} {:>9} ways, {} wrong", trial.tried, trial.wrong);
        wrong += trial.wrong;
    }
    Ok(if wrong == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Every place between two characters, the beginning among them.
fn places(text: &str) -> Vec<usize> {
    text.char_indices().map(|it| it.0).collect()
}

/// One text, cut in many ways.
struct Trial<'a> {
    mask: &'a Mask,
    text: &'a str,
    whole: &'a str,
    tried: u64,
    wrong: u64,
}

impl Trial<'_> {
    /// Tries these cuts, and all that have more of them behind these.
    fn cut(&mut self, cuts: &mut Vec<usize>) {
        self.try_cuts(cuts);
        let last = cuts.last().copied().unwrap_or_default();
        if cuts.len() > MOST_CUTS {
            return;
        }
        for place in places(self.text).into_iter().filter(|it| *it > last) {
            cuts.push(place);
            self.cut(cuts);
            cuts.pop();
        }
    }

    /// Masks the pieces that begin at `cuts`.
    fn try_cuts(&mut self, cuts: &[usize]) {
        let mut stream = self.mask.stream();
        let mut said = String::new();
        let ends = cuts.iter().skip(1).copied().chain([self.text.len()]);
        for (from, to) in cuts.iter().copied().zip(ends) {
            said.push_str(&stream.push(self.text.get(from..to).unwrap_or_default()));
        }
        said.push_str(&stream.finish());
        self.tried += 1;
        self.wrong += u64::from(said != self.whole);
    }
}
