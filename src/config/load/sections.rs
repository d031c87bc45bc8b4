//! Checks of single sections that the schema cannot express: the live trace, limits,
//! exporters, stores and the users of the admin API.

use std::collections::BTreeSet;

use http::{HeaderName, header};
use secrecy::ExposeSecret;
use url::Url;

use super::{loader::Loader, pointers::matching};
use crate::config::{
    overrides::MissingSecrets,
    secret::Secret,
    settings::{
        admin_users::TOKEN_USER,
        auth::CallerLimits,
        config_file::Config,
        coverage::{CompactionMode, StoreMode},
        listeners::AdminSettings,
        telemetry::OtlpSettings,
        trace::TraceSettings,
    },
    spanned_yaml::unescape_key,
};

/// Headers that exporters set themselves.
const RESERVED_HEADERS: [HeaderName; 6] = [
    header::CONNECTION,
    header::CONTENT_ENCODING,
    header::CONTENT_LENGTH,
    header::CONTENT_TYPE,
    header::HOST,
    header::TRANSFER_ENCODING,
];

/// Paths of OTLP over HTTP that belong to one signal each.
const SIGNAL_PATHS: [&str; 3] = ["/v1/traces", "/v1/logs", "/v1/metrics"];

/// Memory of the live trace that its tables take.
const MIN_TRACE_BYTES: usize = 4 * 1024 * 1024;

impl Loader {
    pub(super) fn check_trace(&mut self) {
        let trace: Option<TraceSettings> = self.section("/trace");
        if trace.is_some_and(|trace| trace.memory < MIN_TRACE_BYTES) {
            self.problem("/trace/memory", "`trace.memory` must be at least 4MiB");
        }
    }

    pub(super) fn check_telemetry(&mut self) {
        let otlp: Option<OtlpSettings> = self.section("/telemetry/otlp");
        if otlp.is_some_and(|otlp| !otlp.traces && !otlp.logs) {
            self.problem("/telemetry/otlp", "`traces` or `logs` must be true");
        }
        let endpoint: Option<Url> = self.section("/telemetry/otlp/endpoint");
        let path = endpoint.map(|url| url.path().trim_end_matches('/').to_owned());
        let path = path.unwrap_or_default();
        if SIGNAL_PATHS.iter().any(|signal| path.ends_with(signal)) {
            let message = format!(
                "hookgate appends `/v1/traces` and `/v1/logs` to the endpoint, so that it sends spans to `{path}/v1/traces`: leave out the path of the signal"
            );
            self.warning("/telemetry/otlp/endpoint", message);
        }
        self.check_headers("/telemetry/otlp/headers/*");
    }

    /// Checks the names of the headers of an exporter, whose pointers match `pattern`.
    pub(super) fn check_headers(&mut self, pattern: &str) {
        let mut names = BTreeSet::new();
        for pointer in matching(&self.value, pattern) {
            let name = pointer
                .rsplit('/')
                .next()
                .map(unescape_key)
                .unwrap_or_default();
            let Ok(name) = HeaderName::try_from(name) else {
                self.problem(&pointer, "invalid header name");
                continue;
            };
            if RESERVED_HEADERS.contains(&name) || !names.insert(name.as_str().to_owned()) {
                self.problem(&pointer, "this header is already set");
            }
        }
    }

    /// Checks the URLs of Redis. With placeholders for secrets, sessions and limits stay in
    /// memory.
    pub(super) fn check_redis_urls(&mut self) {
        for store in ["/sessions/store", "/auth/limits/store"] {
            let pointer = format!("{store}/redis/url");
            let Some(url) = self.section::<Secret>(&pointer) else {
                continue;
            };
            if self.missing_secrets == MissingSecrets::Placeholder
                && let Some(store) = self.value.pointer_mut(store)
            {
                *store = "memory".into();
                continue;
            }
            // An empty one has been reported.
            let url = url.expose_secret();
            if !url.is_empty() && !is_redis_url(url) {
                let message = "the secret is not a URL such as `redis://HOST:PORT/NUMBER` or `rediss://HOST:PORT`";
                self.problem(&pointer, message);
            }
        }
    }

    /// Warns of limits that are never reached, because another one is lower.
    pub(super) fn warn_of_unreachable_limits(&mut self, config: &Config) {
        let limits = &config.limits;
        if limits.body > limits.memory {
            let message = "`limits.memory` is less than `limits.body`, so a call with a body of that size always fails";
            self.warning("/limits/memory", message);
        }
        for (pointer, _, grant) in config.auth.grants() {
            if grant.in_flight > limits.in_flight {
                let message = "the limit is never reached: `limits.in_flight` is lower";
                self.warning(&format!("{pointer}/in_flight"), message);
            }
        }
        if config.proof.timeout > config.proof.total_timeout {
            let message = "the timeout is never reached: `proof.total_timeout` is shorter";
            self.warning("/proof/timeout", message);
        }
        let timeouts = &config.timeouts;
        let uses_http2 = config.upstreams.iter().any(|(_, upstream)| upstream.http2);
        if uses_http2 && timeouts.first_byte <= timeouts.upstream_connect {
            let message = "calls that get no connection over HTTP/2 do not open the circuit breaker: `timeouts.upstream_connect` is not shorter";
            self.warning("/timeouts/first_byte", message);
        }
    }

    /// Warns of settings that others leave without an effect.
    pub(super) fn warn_of_settings_without_effect(&mut self, config: &Config) {
        let (limits, coverage, trace) = (&config.auth.limits, &config.coverage, config.trace);
        let (defaults, upstreams) = (CallerLimits::default(), &config.upstreams);
        // A placeholder for the URL of Redis becomes `memory`.
        let is_in_memory =
            config.limits_redis().is_none() && self.missing_secrets == MissingSecrets::Refused;
        let has_summaries = upstreams.openai.is_some() || upstreams.anthropic.is_some();
        let content = trace.content;
        let keeps_content = content.denied_or_edited || content.sample > 0.0 || content.reasons;
        let found = [
            (
                "/auth/limits/on_store_loss",
                is_in_memory && limits.on_store_loss != defaults.on_store_loss,
                "limits are counted in memory",
            ),
            (
                "/auth/limits/min_replicas",
                is_in_memory && limits.min_replicas != defaults.min_replicas,
                "limits are counted in memory",
            ),
            (
                "/coverage/store",
                upstreams.openai.is_none() && coverage.store == StoreMode::Never,
                "`upstreams.openai` is missing",
            ),
            (
                "/coverage/compaction",
                !has_summaries && coverage.compaction == CompactionMode::Known,
                "no API of `upstreams` has such summaries",
            ),
            (
                "/trace/content",
                keeps_content && trace.exchanges == 0,
                "`trace.exchanges` is 0",
            ),
        ];
        for (pointer, _, reason) in found.into_iter().filter(|(_, is_unused, _)| *is_unused) {
            let name = pointer.rsplit('/').next().unwrap_or_default();
            self.warning(pointer, format!("`{name}` has no effect: {reason}"));
        }
    }

    /// Checks that names and tokens identify one user each.
    pub(super) fn check_admin_users(&mut self, admin: &AdminSettings) {
        let has_token = admin.token.is_some();
        let mut names: BTreeSet<&str> = has_token.then_some(TOKEN_USER).into_iter().collect();
        let token = admin.token.iter().map(ExposeSecret::expose_secret);
        let mut tokens: BTreeSet<&str> = token.collect();
        for (index, user) in admin.users.iter().enumerate() {
            if !names.insert(&user.name) {
                let message = format!("two users are named `{}`", user.name);
                self.problem(&format!("/admin/users/{index}/name"), message);
            }
            let is_new = tokens.insert(user.token.expose_secret());
            if !is_new && self.missing_secrets == MissingSecrets::Refused {
                let message = "two users have this token";
                self.problem(&format!("/admin/users/{index}/token"), message);
            }
        }
    }
}

fn is_redis_url(text: &str) -> bool {
    Url::parse(text).is_ok_and(|url| {
        matches!(url.scheme(), "redis" | "rediss")
            && url.host_str().is_some_and(|host| !host.is_empty())
            && url.fragment().is_none()
    }) && redis::Client::open(text).is_ok()
}
