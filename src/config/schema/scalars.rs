//! JSON Schemas of strings and numbers. The settings themselves hold standard types
//! such as `SocketAddr` and refer to these by `#[schemars(with = "AddressSchema")]`.
#![expect(dead_code, reason = "only the schemas of these types are used")]

use schemars::JsonSchema;

use super::formats::{DERIVED_EVENT, derivable_events};

/// An IP address and a port.
#[derive(JsonSchema)]
#[schemars(rename = "Address", extend("format" = "socket-address", "errorMessage" = "must be an IP address and a port such as `127.0.0.1:8787`"))]
pub(crate) struct AddressSchema(String);

/// The base URL of an API.
#[derive(JsonSchema)]
#[schemars(rename = "BaseUrl", extend("format" = "base-url", "writeOnly" = true, "errorMessage" = "must be an http or https URL without user, query or fragment"))]
pub(crate) struct BaseUrlSchema(String);

/// A path. Relative paths start from the directory of the config file.
#[derive(JsonSchema)]
#[schemars(rename = "Path", extend("minLength" = 1, "errorMessage" = "must be a path"))]
pub(crate) struct FilePathSchema(String);

/// A public key of Ed25519.
#[derive(JsonSchema)]
#[schemars(rename = "BundleKey", extend("format" = "bundle-key", "writeOnly" = true, "errorMessage" = "must be a public key as `hookgate bundle key` prints it: `ed25519:` and 32 bytes in base64"))]
pub(crate) struct BundleKeySchema(String);

/// The URL of a bundle.
#[derive(JsonSchema)]
#[schemars(rename = "BundleUrl", extend("format" = "hook-url", "writeOnly" = true, "errorMessage" = "must be an http or https URL without user or fragment"))]
pub(crate) struct BundleUrlSchema(String);

/// A public key of age.
#[derive(JsonSchema)]
#[schemars(rename = "AgeRecipient", extend("format" = "age-recipient", "writeOnly" = true, "errorMessage" = "must be an age recipient: `age1` and 58 characters, as `age-keygen` prints it"))]
pub(crate) struct AgeRecipientSchema(String);

/// A maximum number of items.
#[derive(JsonSchema)]
#[schemars(rename = "Count", extend("minimum" = 1, "maximum" = 1_000_000, "errorMessage" = "must be a whole number from 1 to 1000000"))]
pub(crate) struct CountSchema(usize);

/// A maximum number of retries that cost a model call each.
#[derive(JsonSchema)]
#[schemars(rename = "Rounds", extend("minimum" = 1, "maximum" = 100, "errorMessage" = "must be a whole number from 1 to 100"))]
pub(crate) struct RoundsSchema(u32);

/// A number of requests per minute.
#[derive(JsonSchema)]
#[schemars(rename = "Rate", extend("minimum" = 1, "maximum" = 1_000_000, "errorMessage" = "must be a whole number from 1 to 1000000"))]
pub(crate) struct RateSchema(u32);

/// A number of tokens.
#[derive(JsonSchema)]
#[schemars(rename = "Tokens", extend("minimum" = 1, "maximum" = 1_000_000_000_000_u64, "errorMessage" = "must be a number of tokens from 1"))]
pub(crate) struct TokensSchema(u64);

/// A name in which `*` matches any text.
#[derive(JsonSchema)]
#[schemars(rename = "CallerGlob", extend("format" = "glob"))]
pub(crate) struct CallerGlobSchema(String);

/// A host name without a port.
#[derive(JsonSchema)]
#[schemars(rename = "HostName", extend("pattern" = "^[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$", "errorMessage" = "must be a host name without a port"))]
pub(crate) struct HostNameSchema(String);

/// The origin of a web page.
#[derive(JsonSchema)]
#[schemars(rename = "Origin", extend("format" = "origin", "writeOnly" = true, "errorMessage" = "must be an origin such as `https://console.example`: scheme, host and port"))]
pub(crate) struct OriginSchema(String);

/// The URL of a hook's HTTP server.
#[derive(JsonSchema)]
#[schemars(rename = "HookUrl", extend("format" = "hook-url", "writeOnly" = true, "errorMessage" = "must be an http or https URL without user or fragment"))]
pub(crate) struct HookUrlSchema(String);

/// The name of an event that can be derived from model calls.
#[derive(JsonSchema)]
#[schemars(rename = "DerivedEvent", extend("format" = DERIVED_EVENT.name, "examples" = derivable_events(), "errorMessage" = "must be the name of an event"))]
pub(crate) struct DerivedEventSchema(String);
