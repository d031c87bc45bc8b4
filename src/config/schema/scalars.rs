//! JSON Schemas of strings and numbers. The settings themselves hold standard types
//! such as `SocketAddr` and refer to these by `#[schemars(with = "Address")]`.
#![expect(dead_code, reason = "only the schemas of these types are used")]

use schemars::JsonSchema;

use super::formats::{DERIVED_EVENT, derivable_events};

/// An IP address and a port.
#[derive(JsonSchema)]
#[schemars(extend("format" = "socket-address", "errorMessage" = "must be an IP address and a port such as `127.0.0.1:8787`"))]
pub(in crate::config) struct Address(String);

/// The base URL of an API.
#[derive(JsonSchema)]
#[schemars(extend("format" = "base-url", "writeOnly" = true, "errorMessage" = "must be an http or https URL without user, query or fragment"))]
pub(in crate::config) struct BaseUrl(String);

/// A path. Relative paths start from the directory of the config file.
#[derive(JsonSchema)]
#[schemars(rename = "Path", extend("minLength" = 1, "errorMessage" = "must be a path"))]
pub(crate) struct FilePath(String);

/// A maximum number.
#[derive(JsonSchema)]
#[schemars(extend("minimum" = 1, "maximum" = 1_000_000, "errorMessage" = "must be a number from 1 to 1000000"))]
pub(in crate::config) struct Count(usize);

/// A maximum number of retries that cost a model call each.
#[derive(JsonSchema)]
#[schemars(extend("minimum" = 1, "maximum" = 100, "errorMessage" = "must be a number from 1 to 100"))]
pub(in crate::config) struct Rounds(u32);

/// A number of requests per minute.
#[derive(JsonSchema)]
#[schemars(extend("minimum" = 1, "maximum" = 1_000_000, "errorMessage" = "must be a number from 1 to 1000000"))]
pub(in crate::config) struct Rate(u32);

/// A number of tokens.
#[derive(JsonSchema)]
#[schemars(extend("minimum" = 1, "maximum" = 1_000_000_000_000_u64, "errorMessage" = "must be a number of tokens from 1"))]
pub(in crate::config) struct Tokens(u64);

/// A name in which `*` matches any text.
#[derive(JsonSchema)]
#[schemars(extend("format" = "glob"))]
pub(in crate::config) struct CallerGlob(String);

/// A host name without a port.
#[derive(JsonSchema)]
#[schemars(extend("pattern" = "^[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$", "errorMessage" = "must be a host name without a port"))]
pub(in crate::config) struct HostName(String);

/// The origin of a web page.
#[derive(JsonSchema)]
#[schemars(extend("format" = "origin", "errorMessage" = "must be an origin such as `https://console.example`: scheme, host and port"))]
pub(in crate::config) struct Origin(String);

/// The URL of a hook's HTTP server.
#[derive(JsonSchema)]
#[schemars(extend("format" = "hook-url", "writeOnly" = true, "errorMessage" = "must be an http or https URL without user or fragment"))]
pub(in crate::config) struct HookUrl(String);

/// The name of an event that can be derived from model calls.
#[derive(JsonSchema)]
#[schemars(extend("format" = DERIVED_EVENT.name, "examples" = derivable_events(), "errorMessage" = "must be the name of an event"))]
pub(in crate::config) struct DerivedEvent(String);
