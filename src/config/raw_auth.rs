//! Callers and browsers as written.

use std::{
    borrow::Cow,
    net::IpAddr,
    num::{NonZeroU32, NonZeroU64},
};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::Value;
use url::{Host, Url};

use super::{
    Browsers, CertificateName,
    auth::CALLER_NAME,
    raw::{RawPath, RawSecret},
    units::Count,
};

/// How callers are known.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Auth")]
pub(super) struct RawAuth {
    /// Callers that show a key; `hookgate key` makes one.
    pub(super) keys: Vec<RawKey>,
    /// Callers that show a token (JWT) of an identity provider.
    pub(super) jwt: Option<RawJwt>,
    /// Callers that show a certificate.
    pub(super) mtls: Option<RawMtls>,
    /// Whether nobody is asked. Must be said if agents on other machines can
    /// connect.
    pub(super) anonymous: bool,
    /// What callers get that do not have their own.
    pub(super) limits: RawCallerLimits,
}

/// A caller that shows a key.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "CallerKey", deny_unknown_fields)]
pub(super) struct RawKey {
    /// Who it is: in conditions, log and metrics.
    #[schemars(extend("pattern" = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$", "errorMessage" = CALLER_NAME))]
    pub(super) name: String,
    /// The SHA-256 of the key, in hex.
    #[schemars(extend("pattern" = "^[0-9A-Fa-f]{64}$", "errorMessage" = "must be a SHA-256 in hex, 64 digits: never the key itself", "writeOnly" = true))]
    pub(super) sha256: String,
    #[serde(flatten)]
    pub(super) grant: RawGrant,
}

/// Callers that show a token.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "Jwt", deny_unknown_fields)]
pub(super) struct RawJwt {
    /// What `iss` must be.
    #[schemars(length(min = 1))]
    pub(super) issuer: String,
    /// What `aud` must be, or hold.
    #[schemars(length(min = 1))]
    pub(super) audience: String,
    /// Where the issuer's keys are: an https URL, or `{ file: PATH }`.
    pub(super) jwks: RawJwks,
    /// The claim that names the caller; its name is `jwt:` and that.
    #[serde(default = "sub")]
    #[schemars(length(min = 1))]
    pub(super) name: String,
    #[serde(flatten)]
    pub(super) grant: RawGrant,
}

/// Where the keys of an issuer are.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum RawJwks {
    /// There.
    Url(Url),
    /// In a file.
    File { file: RawPath },
}

/// Callers that show a certificate.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "Mtls", deny_unknown_fields)]
pub(super) struct RawMtls {
    /// Which of its names counts; the caller's name is `mtls:` and that.
    #[serde(default)]
    pub(super) name: CertificateName,
    /// The names that are let in; all if absent.
    #[schemars(extend("minItems" = 1))]
    pub(super) allow: Option<Vec<String>>,
    #[serde(flatten)]
    pub(super) grant: RawGrant,
}

/// What a caller may use.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "Grant")]
pub(super) struct RawGrant {
    /// The only models it may ask, as globs; all if absent.
    #[schemars(extend("minItems" = 1))]
    pub(super) models: Option<Vec<RawGlob>>,
    /// The only tools that its agents may have, as globs; all if absent.
    pub(super) tools: Option<Vec<RawGlob>>,
    /// The key that the model API is shown for it.
    #[expect(dead_code, reason = "resolved from where it stands, with its place")]
    pub(super) upstream_key: Option<RawSecret>,
    /// How often it may ask in a minute.
    pub(super) requests_per_minute: Option<RawRate>,
    /// How many tokens it may spend in a day of UTC.
    pub(super) tokens_per_day: Option<RawTokens>,
    /// How many of its requests may be under way.
    pub(super) in_flight: Option<Count>,
}

/// What callers get that do not have their own.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "CallerLimits")]
pub(super) struct RawCallerLimits {
    /// How often one caller may ask in a minute; as often as it likes if absent.
    pub(super) requests_per_minute: Option<RawRate>,
    /// How many tokens one caller may spend in a day of UTC.
    pub(super) tokens_per_day: Option<RawTokens>,
    /// How many requests of one caller may be under way; half of
    /// `limits.in_flight` if absent.
    pub(super) in_flight: Option<Count>,
}

/// A name in which `*` stands for anything.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "CallerGlob", with = "String", extend("format" = "glob"))]
pub(super) struct RawGlob(pub(super) String);

/// How often in a minute.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[schemars(rename = "Rate", with = "u32", extend("minimum" = 1, "maximum" = 1_000_000, "errorMessage" = "must be a number from 1 to 1000000"))]
pub(super) struct RawRate(pub(super) NonZeroU32);

/// How many tokens.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[schemars(rename = "Tokens", with = "u64", extend("minimum" = 1, "maximum" = 1_000_000_000_000_u64, "errorMessage" = "must be a number of tokens from 1"))]
pub(super) struct RawTokens(pub(super) NonZeroU64);

/// Which web pages may call.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Browsers")]
pub(super) struct RawBrowsers {
    /// Names by which this gateway is called, beside `localhost` and IP
    /// addresses.
    hosts: Vec<RawHost>,
    /// Web pages of these origins may call, such as `https://console.example`.
    origins: Vec<RawOrigin>,
}

/// The name of a machine.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "HostName", with = "String", extend("pattern" = "^[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$", "errorMessage" = "must be the name of a machine, without a port"))]
struct RawHost(String);

/// Where a web page comes from.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "Origin", with = "String", extend("format" = "origin", "errorMessage" = "must be an origin such as `https://console.example`: scheme, host and port"))]
struct RawOrigin(String);

impl JsonSchema for RawJwks {
    fn schema_name() -> Cow<'static, str> {
        "Jwks".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": ["string", "object"],
            "format": "jwks-url",
            "properties": { "file": generator.subschema_for::<RawPath>() },
            "required": ["file"],
            "additionalProperties": false,
            "errorMessage": "must be an https URL without user or fragment, or `{ file: PATH }`",
        })
    }
}

impl From<RawBrowsers> for Browsers {
    fn from(raw: RawBrowsers) -> Self {
        Self {
            hosts: raw
                .hosts
                .into_iter()
                .map(|it| it.0.to_ascii_lowercase())
                .collect(),
            origins: raw.origins.into_iter().map(|it| it.0).collect(),
        }
    }
}

impl RawGrant {
    /// What only these models and tools mean as policies: their names, and their
    /// settings.
    pub(super) fn policies(&self) -> Vec<(&'static str, &'static str, Vec<Value>)> {
        let globs = |it: &[RawGlob]| it.iter().map(|it| it.0.clone().into()).collect();
        let models = self.models.as_deref().map(globs);
        let tools = self.tools.as_deref().map(globs);
        let models = models.map(|it| ("model_allow", "models", it));
        let tools = tools.map(|it| ("tool_guard", "allow", it));
        models.into_iter().chain(tools).collect()
    }
}

/// Whether the keys of an issuer can be fetched there: whoever can change them
/// on the way decides who is let in.
pub(super) fn is_jwks_url(text: &str) -> bool {
    let Ok(url) = Url::parse(text) else {
        return false;
    };
    let is_here = match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(ip)) => IpAddr::from(ip).is_loopback(),
        Some(Host::Ipv6(ip)) => IpAddr::from(ip).is_loopback(),
        None => return false,
    };
    let safe = url.scheme() == "https" || (url.scheme() == "http" && is_here);
    safe && url.username().is_empty() && url.password().is_none() && url.fragment().is_none()
}

/// Whether a browser could write an origin so.
pub(super) fn is_origin(text: &str) -> bool {
    Url::parse(text).is_ok_and(|url| {
        matches!(url.scheme(), "http" | "https") && url.origin().ascii_serialization() == text
    })
}

fn sub() -> String {
    "sub".to_owned()
}
