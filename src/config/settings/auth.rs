//! Callers, how they authenticate, and what each may use.

use std::num::{NonZeroU32, NonZeroU64};

use data_encoding::HEXLOWER_PERMISSIVE;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use url::Url;

use crate::{
    config::{
        schema::scalars::{
            CallerGlobSchema, CountSchema, FilePathSchema, HostNameSchema, OriginSchema,
            RateSchema, TokensSchema,
        },
        secret::Secret,
        settings::sessions::{StoreSchema, StoreSettings},
        source_span::SourceSpan,
    },
    sha256::sha256,
};

/// Prefix of the names of callers that authenticate by a JWT.
pub const TOKEN_PREFIX: &str = "jwt:";

/// Prefix of the names of callers that authenticate by a client certificate.
pub const CERTIFICATE_PREFIX: &str = "mtls:";

/// The rule for names of callers that authenticate by a key, as an error message.
pub const CALLER_NAME: &str =
    "must be 1 to 64 of `A-Z a-z 0-9 . _ -`, and begin with none of the last three";

/// Checks `name` against [`CALLER_NAME`].
pub fn is_caller_name(name: &str) -> bool {
    let is_allowed = |char: char| char.is_ascii_alphanumeric() || "._-".contains(char);
    name.starts_with(|char: char| char.is_ascii_alphanumeric())
        && name.len() <= 64
        && name.chars().all(is_allowed)
}

/// Authentication of callers. Without any method, callers are not authenticated.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Auth {
    /// Callers that authenticate by an API key; `hookgate key` creates one.
    #[schemars(extend("default" = []))]
    pub keys: Vec<KeySpec>,
    /// Callers that authenticate by a JWT of an identity provider.
    pub jwt: Option<JwtSpec>,
    /// Callers that authenticate by a client certificate.
    // An empty section enables it, so the display does not add one with the defaults.
    #[schemars(extend("x-optional" = true))]
    pub mtls: Option<MtlsSpec>,
    /// Serve callers without authentication. Must be set if agents on other machines
    /// can connect and no other method is configured.
    pub anonymous: bool,
    /// Defaults for callers without limits of their own.
    pub limits: CallerLimits,
}

/// A caller that authenticates by an API key.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[schemars(rename = "CallerKey", deny_unknown_fields)]
pub struct KeySpec {
    /// The caller's name in conditions, logs and metrics.
    #[schemars(extend("pattern" = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$", "errorMessage" = CALLER_NAME))]
    pub name: String,
    /// The SHA-256 of the key, in hexadecimal.
    #[serde(deserialize_with = "sha256_from_hex")]
    #[schemars(with = "String", extend("pattern" = "^[0-9A-Fa-f]{64}$", "errorMessage" = "must be a SHA-256 in hex, 64 digits: never the key itself", "writeOnly" = true))]
    pub sha256: [u8; 32],
    /// Allowed models and tools, upstream keys and limits of the caller.
    #[serde(flatten)]
    pub grant: Grant,
}

/// Callers that authenticate by a JWT.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[schemars(rename = "Jwt", deny_unknown_fields)]
pub struct JwtSpec {
    /// The required value of the `iss` claim.
    #[schemars(length(min = 1))]
    pub issuer: String,
    /// The required value or element of the `aud` claim.
    #[schemars(length(min = 1))]
    pub audience: String,
    /// The issuer's keys: an https URL, or `{ file: PATH }`.
    #[schemars(with = "JwksSchema")]
    pub jwks: JwksOrigin,
    /// The claim with the caller's name, which is prefixed by `jwt:`.
    #[serde(default = "default_name_claim")]
    #[schemars(length(min = 1))]
    pub name: String,
    /// Allowed models and tools, upstream keys and limits of each of these callers.
    #[serde(flatten)]
    pub grant: Grant,
    /// The position in the config, set by the loader.
    #[schemars(skip)]
    pub span: SourceSpan,
}

/// The source of an issuer's keys.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum JwksOrigin {
    /// A URL: https, or http on this machine.
    Url(Url),
    /// A file on this machine.
    File {
        /// The content of the file. The loader puts it in place of the path.
        #[serde(rename = "file")]
        content: String,
    },
}

/// The schema of [`JwksOrigin`], which may also be a string.
#[derive(JsonSchema)]
#[schemars(rename = "Jwks", deny_unknown_fields, description = "The source of an issuer's keys.", extend("type" = ["string", "object"], "format" = "jwks-url", "writeOnly" = true, "errorMessage" = "must be an https URL without user or fragment, or `{ file: PATH }`"))]
#[expect(dead_code, reason = "only its schema is used")]
struct JwksSchema {
    /// The path of a JWKS file.
    file: FilePathSchema,
}

/// Callers that authenticate by a client certificate.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[schemars(rename = "Mtls", deny_unknown_fields)]
pub struct MtlsSpec {
    /// The name of the certificate that identifies the caller, prefixed by `mtls:`.
    #[serde(default)]
    pub name: CertificateName,
    /// The accepted names. Default: all.
    #[schemars(extend("minItems" = 1))]
    pub allow: Option<Vec<String>>,
    /// Allowed models and tools, upstream keys and limits of each of these callers.
    #[serde(flatten)]
    pub grant: Grant,
}

/// A name in a certificate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CertificateName {
    /// The common name of the subject.
    CommonName,
    /// The first subject alternative name that is accepted.
    #[default]
    AlternativeName,
}

/// Allowed models and tools, upstream keys and limits of a caller. The loader fills in the defaults
/// of `auth.limits`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct Grant {
    /// Globs of the allowed models. Default: all.
    #[schemars(with = "Option<Vec<CallerGlobSchema>>", extend("minItems" = 1))]
    pub models: Option<Vec<String>>,
    /// Globs of the allowed tools. Default: all.
    #[schemars(with = "Option<Vec<CallerGlobSchema>>")]
    pub tools: Option<Vec<String>>,
    /// The API key for `gemini` and `vertex`, instead of the upstream's own.
    pub upstream_key: Option<Secret>,
    /// API keys by upstream, instead of the upstreams' own.
    #[serde(default)]
    pub upstream_keys: CallerKeys,
    /// Maximum number of requests per minute.
    #[schemars(with = "Option<RateSchema>")]
    pub requests_per_minute: Option<NonZeroU32>,
    /// Maximum number of tokens per day, in UTC.
    #[schemars(with = "Option<TokensSchema>")]
    pub tokens_per_day: Option<NonZeroU64>,
    /// Maximum number of concurrent requests.
    #[schemars(with = "Option<CountSchema>")]
    pub in_flight: usize,
    /// `in_flight` if the config has it, which all replicas share. The default is for each
    /// replica. Set by the loader.
    #[serde(default)]
    #[schemars(skip)]
    pub shared_in_flight: Option<usize>,
}

/// The API keys of a caller, each for one upstream. Code Assist takes no keys.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CallerKeys {
    /// The key for the Gemini API.
    pub gemini: Option<Secret>,
    /// The key for Vertex AI.
    pub vertex: Option<Secret>,
    /// The key for Anthropic.
    pub anthropic: Option<Secret>,
    /// The key for OpenAI, or for a server that is compatible.
    pub openai: Option<Secret>,
}

/// Defaults for callers without limits of their own, and where limits are counted.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CallerLimits {
    /// Maximum number of requests per minute. Default: unlimited.
    #[schemars(with = "Option<RateSchema>")]
    pub requests_per_minute: Option<NonZeroU32>,
    /// Maximum number of tokens per day, in UTC. Default: unlimited.
    #[schemars(with = "Option<TokensSchema>")]
    pub tokens_per_day: Option<NonZeroU64>,
    /// Maximum number of concurrent requests. Default: half of `limits.in_flight`.
    #[schemars(with = "Option<CountSchema>")]
    pub in_flight: Option<usize>,
    /// Store in which limits are counted: `memory` of each replica, or `redis` with its URL for all
    /// replicas together. Default: `sessions.store`.
    #[schemars(with = "Option<StoreSchema>")]
    pub store: Option<StoreSettings>,
    /// Method by which each replica limits callers while Redis is unavailable.
    pub on_store_loss: OnStoreLoss,
    /// Least number of replicas among which `share` divides limits, also by a replica that
    /// has not reached Redis yet.
    #[schemars(with = "CountSchema")]
    pub min_replicas: u32,
}

/// Method by which a replica limits callers while the store of their limits is unavailable.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnStoreLoss {
    /// By their limits, divided by the number of replicas that were last seen.
    #[default]
    Share,
    /// By their whole limits.
    Local,
    /// By no limit but that of the process.
    Open,
    /// By refusing requests until the store is back.
    Closed,
}

/// Web pages that may call the gateway, other than those of its own origin.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Browsers {
    /// Host names of this gateway, besides `localhost` and IP addresses.
    #[serde(
        deserialize_with = "in_lower_case",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schemars(with = "Vec<HostNameSchema>", extend("default" = []))]
    pub hosts: Vec<String>,
    /// Origins of web pages whose requests are not refused, such as `https://console.example`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<OriginSchema>", extend("default" = []))]
    pub origins: Vec<String>,
}

impl Default for CallerLimits {
    fn default() -> Self {
        Self {
            requests_per_minute: None,
            tokens_per_day: None,
            in_flight: None,
            store: None,
            on_store_loss: OnStoreLoss::default(),
            min_replicas: 1,
        }
    }
}

impl Auth {
    /// Checks whether callers are authenticated.
    pub const fn is_required(&self) -> bool {
        !self.keys.is_empty() || self.jwt.is_some() || self.mtls.is_some()
    }

    /// Returns the grants of all callers, each with the JSON pointer of its mapping, and the name
    /// of the caller, `jwt` or `mtls`.
    pub(crate) fn grants(&self) -> impl Iterator<Item = (String, &str, &Grant)> {
        let keys = (0..).zip(&self.keys).map(|(index, key)| {
            let pointer = format!("/auth/keys/{index}");
            (pointer, key.name.as_str(), &key.grant)
        });
        let jwt = self.jwt.iter().map(|jwt| ("jwt", &jwt.grant));
        let mtls = self.mtls.iter().map(|mtls| ("mtls", &mtls.grant));
        let methods = jwt.chain(mtls);
        keys.chain(methods.map(|(name, grant)| (format!("/auth/{name}"), name, grant)))
    }
}

impl Grant {
    /// Checks whether the caller is restricted to certain models or tools.
    pub const fn has_lists(&self) -> bool {
        self.models.is_some() || self.tools.is_some()
    }

    /// Returns whether a limit applies to all replicas together, if they share limits.
    pub const fn has_shared_limits(&self) -> bool {
        self.requests_per_minute.is_some()
            || self.tokens_per_day.is_some()
            || self.shared_in_flight.is_some()
    }

    /// Returns the caller's key for an upstream, by its name in the config.
    pub fn key_for(&self, upstream: &str) -> Option<&Secret> {
        let keys = &self.upstream_keys;
        match upstream {
            "gemini" => keys.gemini.as_ref().or(self.upstream_key.as_ref()),
            "vertex" => keys.vertex.as_ref().or(self.upstream_key.as_ref()),
            "anthropic" => keys.anthropic.as_ref(),
            "openai" => keys.openai.as_ref(),
            _ => None,
        }
    }
}

/// Decodes the 32 bytes of a hash. The schema has already refused other texts, which are replaced
/// by their hash, so that the other problems of the section are still found.
fn sha256_from_hex<'de, D: Deserializer<'de>>(deserializer: D) -> Result<[u8; 32], D::Error> {
    let text = String::deserialize(deserializer)?;
    let bytes = HEXLOWER_PERMISSIVE.decode(text.as_bytes()).ok();
    let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
    Ok(bytes.unwrap_or_else(|| sha256(&text)))
}

fn in_lower_case<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let names = Vec::<String>::deserialize(deserializer)?;
    Ok(names.iter().map(|name| name.to_ascii_lowercase()).collect())
}

fn default_name_claim() -> String {
    "sub".to_owned()
}
