//! The table of detectors. To add one: its regular expression and a line in
//! [`DETECTORS`], a line in `docs/policies/redact.md`, and examples in `tests.rs`.
//!
//! Regular expressions are ASCII only, without look-around: [`Edges`] restricts the
//! bytes beside a match, and a validator checks the rest.

use super::validators::{self, Validator};

/// Finds one kind of secret.
#[derive(Debug)]
pub struct Detector {
    /// Name in configs and labels.
    pub name: &'static str,
    /// Short description of the secrets.
    pub finds: &'static str,
    /// Regular expression of a match.
    pub rule: &'static str,
    pub(super) edges: Edges,
    /// Validator of matches that have a maximum length; without one, every match is a secret.
    pub(super) check: Option<Validator>,
}

/// Class of byte values.
pub(super) type Class = fn(u8) -> bool;

/// Bytes that may not be adjacent to a match, and those that it must have. What these refuse, they
/// refuse from every later start as well.
#[derive(Debug, Clone, Copy)]
pub(super) struct Edges {
    /// Class of the byte before, unless an escape such as `\n` ends there. Without it,
    /// a match may begin anywhere.
    pub(super) before: Option<Class>,
    /// Class of the byte after.
    pub(super) after: Option<Class>,
    /// For matches that may begin anywhere: how to find their start.
    pub(super) lead: Option<Lead>,
    /// A byte that every match has near its start.
    pub(super) early_mark: Option<EarlyMark>,
    /// Class of which every match has a byte.
    pub(super) required: Option<Class>,
}

/// A match that is found by a byte inside it; its start is searched backwards.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lead {
    pub(super) mark: u8,
    /// Class and maximum number of the bytes between the start and the mark.
    pub(super) body: Class,
    pub(super) most: usize,
}

/// A byte that is among the first bytes of every match. It bounds a repetition that the
/// regular expression does not count: attempts that count differently never reach the same
/// state, so each of them would read the same bytes again.
#[derive(Debug, Clone, Copy)]
pub(super) struct EarlyMark {
    pub(super) byte: u8,
    /// Number of the first bytes.
    pub(super) within: usize,
}

impl Edges {
    /// No restriction on adjacent bytes.
    pub(super) const OPEN: Self = Self::new(None, None);
    const EMAIL: Self = Self {
        lead: Some(Lead {
            mark: b'@',
            body: validators::local,
            most: 64,
        }),
        ..Self::new(
            Some(validators::alphanumeric),
            Some(validators::after_email),
        )
    };
    /// Digits that are not part of a longer word or number.
    const NUMBER: Self = Self::new(
        Some(validators::before_number),
        Some(validators::after_number),
    );
    const CARD: Self = Self {
        before: Some(validators::before_card),
        ..Self::NUMBER
    };
    const WORD: Self = Self::new(
        Some(validators::alphanumeric),
        Some(validators::alphanumeric),
    );
    /// A word that may contain `-` and `_`, and ends where they do. Hyphenated words have no digit.
    const TOKEN: Self = Self {
        required: Some(validators::digit),
        ..Self::new(Some(validators::alphanumeric), Some(validators::base64url))
    };
    /// The header of a web token has at most 1,024 bytes after `eyJ`.
    const WEB_TOKEN: Self = Self {
        early_mark: Some(EarlyMark {
            byte: b'.',
            within: 1028,
        }),
        ..Self::WORD
    };
    /// A text that begins with `://` after a scheme and ends before `@`.
    const AUTHORITY: Self = Self::new(Some(validators::not_scheme), Some(validators::not_at));

    const fn new(before: Option<Class>, after: Option<Class>) -> Self {
        Self {
            before,
            after,
            lead: None,
            early_mark: None,
            required: None,
        }
    }
}

const EMAIL: &str = r"[A-Za-z0-9][A-Za-z0-9._%+-]{0,63}@([A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24}";

/// With country code; North America in three spellings; France; Germany; the United
/// Kingdom in three; Japan. Of two alternatives with a common prefix the longer comes
/// first: an automaton ignores alternatives after a match.
const PHONE: &str = concat!(
    r"\+[1-9][0-9]{0,2}([ .-]?\([0-9]{1,4}\))?([ .-]?[0-9]){4,14}|",
    r"(1[ .-])?\([2-9][0-9]{2}\) ?[2-9][0-9]{2}[ .-][0-9]{4}|",
    r"(1[.-])?[2-9][0-9]{2}-[2-9][0-9]{2}-[0-9]{4}|",
    r"(1\.)?[2-9][0-9]{2}\.[2-9][0-9]{2}\.[0-9]{4}|",
    r"0[1-9]([ .-][0-9]{2}){4}|",
    r"0[1-9][0-9]{1,3}[ /-][0-9]{6,8}|",
    r"0[0-9]{2} [0-9]{4} [0-9]{4}|",
    r"0[0-9]{3} [0-9]{3} [0-9]{4}|",
    r"0[0-9]{4} [0-9]{3} [0-9]{3}|",
    r"0[1-9][0-9]{0,2}-[0-9]{2,4}-[0-9]{4}",
);

/// Undivided, in groups of four, or as American Express and Diners write it.
const CARD: &str =
    r"([0-9]{4}[ -]?){3}[0-9]{1,4}([ -]?[0-9]{1,3})?|[0-9]{4}[ -]?[0-9]{6}[ -]?[0-9]{4,5}";

const IBAN: &str = r"[A-Z]{2}[0-9]{2}( ?[A-Z0-9]{4}){2,7}( ?[A-Z0-9]{1,3})?";
const US_SSN: &str = r"[0-9]{3}-[0-9]{2}-[0-9]{4}";

/// Encrypted tokens have five parts, signed ones three.
const JWT: &str = concat!(
    r"eyJ[A-Za-z0-9_-]{10,}\.",
    r"([A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+){3}|[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]*)",
);

/// The first line must be followed by a line break, literal or escaped, or by the key
/// itself: a mention of the line is not a key.
const PRIVATE_KEY: &str = concat!(
    r"-----BEGIN [A-Z0-9 ]{0,32}PRIVATE KEY( BLOCK)?-----",
    r"( {0,8}\\{1,4}[nrt]| {0,8}[\r\n]| ?[A-Za-z0-9+/=]{16})(?s:.*?)",
    r"(-----END [A-Z0-9 ]{0,32}PRIVATE KEY( BLOCK)?-----|\z)",
);

/// A secret key is recognised by its name: the last 40 characters are the secret.
const AWS_KEY: &str = concat!(
    r"(AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}",
    r"|(?i:aws_?secret_?(access_?)?key|secret_?access_?key)",
    r#"[\\"']{0,8}[ \t]{0,8}(=>?|:)[ \t]{0,8}[\\"']{0,8}[A-Za-z0-9/+]{40}"#,
);

const GOOGLE_KEY: &str = r"AIza[A-Za-z0-9_-]{35}|AQ\.[A-Za-z0-9_-]{30,128}";

/// Tokens of GitHub Apps contain a JSON web token.
const GITHUB_KEY: &str = concat!(
    r"ghs_[0-9]{1,20}_eyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+",
    r"|gh[oprsu]_[A-Za-z0-9_]{36,}|github_pat_[A-Za-z0-9_]{22,}",
);

const SLACK_KEY: &str = concat!(
    r"(xox[a-z]-|xapp-|xoxe\.xox[a-z]-)[A-Za-z0-9-]{10,}",
    r"|hooks\.slack\.com/(services|workflows|triggers)/[A-Za-z0-9_/-]{20,}",
);

const OPENAI_KEY: &str =
    r"sk-[A-Za-z0-9]{20,}|sk-(proj|svcacct|admin|None|or-v1)-[A-Za-z0-9_-]{20,}";
const ANTHROPIC_KEY: &str = r"sk-ant-[A-Za-z0-9_-]{20,}";

/// Only what follows the second colon is secret.
const URL_PASSWORD: &str = r#"://[!-~&&[^/@:"'<>\\]]{0,64}:[!-~&&[^/@"'<>\\]]{1,128}"#;

/// All detectors. Of two matches that begin at one offset, the detector listed first
/// gives the label.
#[rustfmt::skip]
pub const DETECTORS: &[Detector] = &[
    Detector { name: "email", finds: "e-mail addresses", rule: EMAIL, edges: Edges::EMAIL, check: Some(validators::email) },
    Detector { name: "phone", finds: "telephone numbers", rule: PHONE, edges: Edges::NUMBER, check: Some(validators::phone) },
    Detector { name: "card", finds: "payment card numbers", rule: CARD, edges: Edges::CARD, check: Some(validators::card) },
    Detector { name: "iban", finds: "bank account numbers (IBAN)", rule: IBAN, edges: Edges::WORD, check: Some(validators::iban) },
    Detector { name: "us_ssn", finds: "US social security numbers", rule: US_SSN, edges: Edges::NUMBER, check: Some(validators::us_ssn) },
    Detector { name: "jwt", finds: "JSON web tokens", rule: JWT, edges: Edges::WEB_TOKEN, check: None },
    Detector { name: "private_key", finds: "private keys in PEM blocks", rule: PRIVATE_KEY, edges: Edges::OPEN, check: None },
    Detector { name: "aws_key", finds: "AWS access keys, ids and secrets", rule: AWS_KEY, edges: Edges::WORD, check: Some(validators::aws_key) },
    Detector { name: "google_key", finds: "Google API keys", rule: GOOGLE_KEY, edges: Edges::WORD, check: Some(validators::google_key) },
    Detector { name: "github_key", finds: "GitHub tokens", rule: GITHUB_KEY, edges: Edges::WORD, check: None },
    Detector { name: "slack_key", finds: "Slack tokens and webhooks", rule: SLACK_KEY, edges: Edges::WORD, check: None },
    Detector { name: "openai_key", finds: "OpenAI and OpenRouter API keys", rule: OPENAI_KEY, edges: Edges::TOKEN, check: None },
    Detector { name: "anthropic_key", finds: "Anthropic API keys", rule: ANTHROPIC_KEY, edges: Edges::TOKEN, check: None },
    Detector { name: "url_password", finds: "passwords in URLs", rule: URL_PASSWORD, edges: Edges::AUTHORITY, check: Some(validators::url_password) },
];
