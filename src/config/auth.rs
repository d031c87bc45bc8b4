//! Who may call, what each caller may use, and which web pages may.

use std::{
    num::{NonZeroU32, NonZeroU64},
    path::PathBuf,
};

use secrecy::ExposeSecret;
use url::Url;

use super::{Place, upstreams::Credential};

/// What the name of a caller known by its token begins with.
pub const TOKEN_PREFIX: &str = "jwt:";

/// What the name of a caller known by its certificate begins with.
pub const CERTIFICATE_PREFIX: &str = "mtls:";

/// What the name of a caller known by its key must be.
pub const CALLER_NAME: &str =
    "must be 1 to 64 of `A-Z a-z 0-9 . _ -`, and begin with none of the last three";

/// Whether that is what `name` is.
pub fn is_caller_name(name: &str) -> bool {
    let begins = name.starts_with(|it: char| it.is_ascii_alphanumeric());
    let is_plain = |it: char| it.is_ascii_alphanumeric() || "._-".contains(it);
    begins && name.len() <= 64 && name.chars().all(is_plain)
}

/// How callers are known. If there is no way, nobody is asked.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Auth {
    /// Callers that show a key.
    pub keys: Vec<KeySpec>,
    /// Callers that show a token of an identity provider.
    pub jwt: Option<JwtSpec>,
    /// Callers that show a certificate.
    pub mtls: Option<MtlsSpec>,
    /// Whether callers that nobody knows are let in, too.
    pub anonymous: bool,
}

/// A caller that shows a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeySpec {
    /// Who it is.
    pub name: String,
    /// The SHA-256 of the key.
    pub sha256: [u8; 32],
    /// What it may use.
    pub grant: Grant,
}

/// Callers that show a token.
#[derive(Debug, Clone, PartialEq)]
pub struct JwtSpec {
    /// Who must have issued it.
    pub issuer: String,
    /// For whom it must be issued.
    pub audience: String,
    /// The keys of the issuer.
    pub jwks: JwksOrigin,
    /// The claim that names the caller.
    pub name: String,
    /// What each of these callers may use.
    pub grant: Grant,
    /// Where all this stands.
    pub place: Place,
}

/// Where the keys of an issuer are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JwksOrigin {
    /// At this address: https, or http on this machine.
    Url(Url),
    /// In a file; this is what it holds.
    File(PathBuf, String),
}

/// Callers that show a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MtlsSpec {
    /// Which of its names counts.
    pub name: CertificateName,
    /// The names that are let in; all if absent.
    pub allow: Option<Vec<String>>,
    /// What each of these callers may use.
    pub grant: Grant,
}

/// A name in a certificate.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    serde::Serialize,
    serde::Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum CertificateName {
    /// The common name of its subject.
    CommonName,
    /// The first of its alternative names that is let in.
    #[default]
    AlternativeName,
}

/// What a caller may use; which models and tools, policies say.
#[derive(Debug, Clone, Default)]
pub struct Grant {
    /// What a model API that takes keys is shown for it, instead of the upstream's
    /// own.
    pub upstream: Option<Credential>,
    /// How often it may ask.
    pub requests_per_minute: Option<NonZeroU32>,
    /// How many tokens it may spend in a day of UTC.
    pub tokens_per_day: Option<NonZeroU64>,
    /// How many of its requests may be under way. Not zero.
    pub in_flight: usize,
    /// Whether it may use the models or tools of a list alone.
    pub has_lists: bool,
}

/// Which web pages may call, beside those that are served here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Browsers {
    /// Names that this gateway is called by, in lower case, without ports.
    pub hosts: Vec<String>,
    /// Where such pages come from, as browsers write it.
    pub origins: Vec<String>,
}

impl Auth {
    /// Whether callers are asked who they are.
    pub const fn asks(&self) -> bool {
        !self.keys.is_empty() || self.jwt.is_some() || self.mtls.is_some()
    }
}

impl PartialEq for Grant {
    fn eq(&self, other: &Self) -> bool {
        let shown = |it: &Self| match &it.upstream {
            Some(Credential::ApiKey(it) | Credential::Bearer(it)) => {
                Some(it.expose_secret().to_owned())
            }
            None => None,
        };
        shown(self) == shown(other)
            && self.requests_per_minute == other.requests_per_minute
            && self.tokens_per_day == other.tokens_per_day
            && self.in_flight == other.in_flight
            && self.has_lists == other.has_lists
    }
}

impl Eq for Grant {}
