//! Checks of the model APIs, their credentials and their methods.

use std::{
    collections::HashSet,
    net::{IpAddr, SocketAddr},
};

use http::{HeaderName, HeaderValue};
use serde_json::Value;
use url::{Host, Url};

use super::{loader::Loader, pointers::matching};
use crate::{
    config::{
        schema::{did_you_mean::did_you_mean, formats::is_loopback},
        settings::{
            auth::Auth,
            config_file::Config,
            coverage::{StoreMode, covers},
            upstreams::UpstreamsConfig,
        },
        spanned_yaml::escape_key,
    },
    dialect::{self, Access, Api, FIELDS, RequestField},
};

const MAX_HEADER_NAME_BYTES: usize = 128;
const MAX_HEADER_BYTES: usize = 8192;

impl Loader {
    /// Checks that each upstream has at most one credential, and each fallback one.
    pub(super) fn check_credentials(&mut self) {
        let upstreams = matching(&self.value, "/upstreams/*");
        let fallbacks = matching(&self.value, "/upstreams/*/fallback");
        for pointer in upstreams.iter().chain(&fallbacks) {
            let has = |key| self.value.pointer(&format!("{pointer}/{key}")).is_some();
            match (has("api_key"), has("bearer")) {
                (true, true) => {
                    let message = "an upstream has `api_key` or `bearer`, not both";
                    self.problem(&format!("{pointer}/bearer"), message);
                }
                (false, false) if fallbacks.contains(pointer) => {
                    let message = "a fallback needs an `api_key` or a `bearer`: \
                         agents' own credentials are not sent to it";
                    self.problem(pointer, message);
                }
                _ => (),
            }
        }
    }

    /// Checks the names and values of configured headers.
    pub(super) fn check_upstream_headers(&mut self) {
        for pointer in matching(&self.value, "/upstreams/*/headers") {
            let headers = self.value.pointer(&pointer).and_then(Value::as_object);
            let headers = headers.cloned().unwrap_or_default();
            let names = headers.keys().map(|name| {
                let pointer = format!("{pointer}/{}", escape_key(name));
                (pointer, name.as_str())
            });
            self.check_header_names(names.collect());
            for (name, value) in &headers {
                let is_valid = |text: &str| {
                    text.len() <= MAX_HEADER_BYTES && HeaderValue::from_str(text).is_ok()
                };
                if value.as_str().is_some_and(|text| !is_valid(text)) {
                    let message = format!(
                        "the value must be printable text of at most {MAX_HEADER_BYTES} bytes"
                    );
                    self.problem(&format!("{pointer}/{}", escape_key(name)), message);
                }
            }
        }
        for pointer in matching(&self.value, "/upstreams/*/forward_headers") {
            let names = self.value.pointer(&pointer).and_then(Value::as_array);
            let names = names.cloned().unwrap_or_default();
            let names = names
                .iter()
                .enumerate()
                .filter_map(|(index, name)| Some((format!("{pointer}/{index}"), name.as_str()?)));
            self.check_header_names(names.collect());
        }
    }

    fn check_header_names(&mut self, names: Vec<(String, &str)>) {
        let mut seen = HashSet::new();
        for (pointer, name) in names {
            let parsed = HeaderName::try_from(name).ok();
            let parsed = parsed.filter(|_| name.len() <= MAX_HEADER_NAME_BYTES);
            match parsed {
                None => {
                    let message = format!(
                        "`{}` is not a header name of at most {MAX_HEADER_NAME_BYTES} characters",
                        name.escape_debug()
                    );
                    self.problem(&pointer, message);
                }
                Some(name) if is_reserved(name.as_str()) => {
                    self.problem(&pointer, format!("the header `{name}` is set by hookgate"));
                }
                Some(name) if !seen.insert(name.clone()) => {
                    self.problem(&pointer, format!("the header `{name}` is listed twice"));
                }
                Some(_) => (),
            }
        }
    }

    pub(super) fn check_upstreams(&mut self, config: &Config) {
        let upstreams = &config.upstreams;
        if upstreams.iter().next().is_none() {
            let message = "`upstreams` must contain `gemini`, `vertex`, `code_assist`, `anthropic` or `openai`";
            self.problem("/upstreams", message);
        }
        for (api, upstream) in upstreams.iter() {
            let fallback = upstream.fallback.as_ref();
            if fallback.is_some_and(|fallback| is_same(&fallback.url, &upstream.url)) {
                let message = "the fallback must have another address than the upstream";
                self.problem(&format!("/upstreams/{api}/fallback/url"), message);
            }
        }
        self.check_own_addresses(config);
        self.warn_of_versions(upstreams);
        for (index, entry) in config.coverage.allow.iter().enumerate() {
            let pointer = format!("/coverage/allow/{index}");
            match check_entry(entry) {
                Ok(()) => self.warn_of_entry(&pointer, entry, config),
                Err(message) => self.problem(&pointer, message),
            }
        }
    }

    /// Warns of an entry of `coverage.allow` without effect, or with effects that may surprise.
    fn warn_of_entry(&mut self, pointer: &str, entry: &str, config: &Config) {
        let mut apis = allowed_by(entry).map(|(_, api, _)| api.upstream());
        if !apis.any(|api| config.upstreams.get(api).is_some()) {
            let message = format!("no API of `upstreams` has `{entry}`, so it has no effect");
            self.warning(pointer, message);
        }
        if needs_stored_response(entry) && config.coverage.store == StoreMode::Never {
            let message =
                format!("`{entry}` needs stored responses, but `coverage.store` is `never`");
            self.warning(pointer, message);
        }
        let mut methods = dialect::methods().filter(|method| covers(entry, method.name));
        if let Some(unseen) = methods.find(|method| method.answers_with_uninspected_text()) {
            let name = unseen.name;
            let message = format!(
                "no hook and no policy inspects the answers of `{name}`, and `request_limits` applies only its `max_input`"
            );
            self.warning(pointer, message);
        }
    }

    /// Checks that no model API is a listener of this gateway, whose calls would call it again.
    fn check_own_addresses(&mut self, config: &Config) {
        let listeners = [config.listen, config.admin.listen];
        for (api, setting, url) in base_urls(&config.upstreams) {
            if let Some(own) = listeners.iter().find(|own| is_address(url, **own)) {
                let message = format!("`{url}` is this gateway itself, which listens on `{own}`");
                self.problem(&format!("/upstreams/{api}/{setting}"), message);
            }
        }
    }

    /// Warns of base URLs that end with a version, which hookgate appends.
    fn warn_of_versions(&mut self, upstreams: &UpstreamsConfig) {
        for (api, setting, url) in base_urls(upstreams) {
            let path = url.path().trim_end_matches('/');
            let appended = match api {
                "openai" => "/v1/chat/completions",
                "anthropic" => "/v1/messages",
                "gemini" => "/v1beta/models",
                "vertex" => "/v1/projects",
                _ => "/v1internal",
            };
            if let Some(version) = version_in(path) {
                let message = format!(
                    "hookgate appends paths such as `{appended}` to the URL, so that it calls `{path}{appended}`: leave out `{version}`"
                );
                self.warning(&format!("/upstreams/{api}/{setting}"), message);
            }
        }
    }

    /// Warns of keys of callers that are never sent.
    pub(super) fn warn_of_unused_keys(&mut self, auth: &Auth, upstreams: &UpstreamsConfig) {
        for (pointer, _, grant) in auth.grants() {
            let keys = &grant.upstream_keys;
            let own = [
                ("gemini", keys.gemini.is_some()),
                ("vertex", keys.vertex.is_some()),
                ("anthropic", keys.anthropic.is_some()),
                ("openai", keys.openai.is_some()),
            ];
            let is_configured = |api: &str| upstreams.get(api).is_some();
            for (api, _) in own
                .iter()
                .filter(|(api, has_key)| *has_key && !is_configured(api))
            {
                let message = format!("`upstreams.{api}` is missing, so the key is never sent");
                self.warning(&format!("{pointer}/upstream_keys/{api}"), message);
            }
            let mut google = own.iter().take(2);
            let is_used = google.any(|(api, has_key)| !has_key && is_configured(api));
            if grant.upstream_key.is_some() && !is_used {
                let message = "the key is never sent: it is for `gemini` and `vertex`, which are not in `upstreams` or have their own in `upstream_keys`";
                self.warning(&format!("{pointer}/upstream_key"), message);
            }
        }
    }

    /// Warns of configured credentials that are sent unencrypted.
    pub(super) fn warn_of_plain_text(&mut self, auth: &Auth, upstreams: &UpstreamsConfig) {
        for (api, upstream) in upstreams.iter() {
            let pointer = format!("/upstreams/{api}");
            let mut grants = auth.grants();
            let caller_has_key = grants.any(|(.., grant)| grant.key_for(api).is_some());
            let sends_key = caller_has_key || upstream.credential.is_some();
            let first = sends_key.then(|| (format!("{pointer}/url"), &upstream.url));
            let fallback = upstream.fallback.as_ref();
            let fallback = fallback.map(|other| (format!("{pointer}/fallback/url"), &other.url));
            let urls = first.into_iter().chain(fallback);
            for (pointer, _) in urls.filter(|(_, url)| is_unencrypted(url)) {
                let message = "the key for the model API is sent unencrypted: use https";
                self.warning(&pointer, message);
            }
        }
    }
}

/// Returns whether a header belongs to the connection, the body or a credential, is hookgate's
/// own, or changes which resource or fields a request is about.
fn is_reserved(name: &str) -> bool {
    let is_listed = matches!(
        name,
        "accept-encoding"
            | "authorization"
            | "connection"
            | "content-encoding"
            | "content-length"
            | "content-type"
            | "expect"
            | "host"
            | "keep-alive"
            | "te"
            | "traceparent"
            | "tracestate"
            | "trailer"
            | "transfer-encoding"
            | "upgrade"
            | "x-api-key"
            | "x-goog-api-key"
            | "x-goog-fieldmask"
            | "x-goog-request-params"
            | "x-http-method"
            | "x-http-method-override"
            | "x-method-override"
    );
    let prefixes = ["proxy-", "x-goog-upload-", "x-hookgate-"];
    is_listed || prefixes.iter().any(|prefix| name.starts_with(prefix))
}

/// Returns the base URLs of all APIs, each with the API and its setting.
fn base_urls(upstreams: &UpstreamsConfig) -> impl Iterator<Item = (&str, &'static str, &Url)> {
    upstreams.iter().flat_map(|(api, upstream)| {
        let fallback = upstream.fallback.as_ref();
        let fallback = fallback.map(|fallback| (api, "fallback/url", &fallback.url));
        fallback.into_iter().chain([(api, "url", &upstream.url)])
    })
}

/// Returns the end of a base URL's path that is a version, or one with a method such as
/// `/v1/messages`.
fn version_in(path: &str) -> Option<&str> {
    let methods = ["/chat/completions", "/messages", "/models", "/responses"];
    let method = methods.iter().find_map(|method| path.strip_suffix(method));
    let (start, version) = method.unwrap_or(path).rsplit_once('/')?;
    let stage = version.strip_prefix("v1")?;
    let is_version =
        matches!(stage, "" | "internal") || stage.starts_with("alpha") || stage.starts_with("beta");
    is_version.then(|| path.strip_prefix(start))?
}

/// Checks whether requests to `url` leave this machine without TLS.
pub(super) fn is_unencrypted(url: &Url) -> bool {
    url.scheme() == "http" && !is_loopback(url)
}

/// Returns the methods of the model APIs, and fields of requests.
fn methods_and_fields() -> impl Iterator<Item = (&'static str, Api, Access)> {
    let methods = dialect::methods().map(|method| (method.name, method.api, method.access));
    let fields = FIELDS.iter();
    methods.chain(fields.map(|field| (field.name, field.api, field.access)))
}

/// Returns the methods and fields that an entry of `coverage.allow` covers.
fn allowed_by(entry: &str) -> impl Iterator<Item = (&'static str, Api, Access)> {
    methods_and_fields().filter(move |(name, ..)| covers(entry, name))
}

/// Returns whether an entry of `coverage.allow` has an effect only if the API stores responses.
fn needs_stored_response(entry: &str) -> bool {
    let kinds = [RequestField::PreviousResponse, RequestField::Background];
    let (mut methods, mut fields) = (dialect::methods(), FIELDS.iter());
    methods.any(|method| method.name == entry && method.names_response())
        || fields.any(|field| field.name == entry && kinds.contains(&field.kind))
}

/// Checks an entry of `coverage.allow`.
fn check_entry(entry: &str) -> Result<(), String> {
    let mut allowed = allowed_by(entry).peekable();
    if allowed.peek().is_none() {
        let hint = did_you_mean(entry, methods_and_fields().map(|(name, ..)| name));
        return Err(format!("unknown method `{entry}`{hint}"));
    }
    // A family is refused only if none of its methods can be allowed.
    let refusals = allowed.map(|(name, _, access)| Some(format!("`{name}` {}", access.refusal()?)));
    let refusals: Option<Vec<String>> = refusals.collect();
    refusals.and_then(|mut all| all.pop()).map_or(Ok(()), Err)
}

/// Returns whether a URL is that of a listener of this machine.
fn is_address(url: &Url, listener: SocketAddr) -> bool {
    let host: Option<IpAddr> = match url.host() {
        Some(Host::Ipv4(ip)) => Some(ip.into()),
        Some(Host::Ipv6(ip)) => Some(IpAddr::from(ip).to_canonical()),
        Some(Host::Domain(_)) | None => None,
    };
    let ip = listener.ip();
    let is_host = host == Some(ip)
        || (is_loopback(url) && ip.is_unspecified())
        || (host.is_none() && is_loopback(url) && ip.is_loopback());
    is_host && url.port_or_known_default() == Some(listener.port())
}

/// Compares two base URLs.
fn is_same(one: &Url, other: &Url) -> bool {
    let path = |url: &Url| url.path().trim_end_matches('/').to_owned();
    one.origin() == other.origin() && path(one) == path(other)
}
