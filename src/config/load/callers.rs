//! Authentication of callers: resolves `auth`, and checks it and the listeners that it protects.

use std::{collections::BTreeSet, net::SocketAddr, path::PathBuf};

use serde_json::{Map, Value, json};

use super::{
    loader::Loader,
    pointers::{fill_in, matching},
};
use crate::{
    config::{
        overrides::MissingSecrets,
        settings::{
            auth::{Auth, CERTIFICATE_PREFIX, Grant, KeySpec, TOKEN_PREFIX},
            config_file::Config,
            limits::Limits,
            listeners::ListenerSpans,
            policies::{CallerPattern, HookMode, HookSettings, PolicySpec},
            proofs::ProofCases,
            upstreams::UpstreamsConfig,
        },
        source_span::{ConfigError, Problem, SourceSpan},
        spanned_yaml::span_to_value,
    },
    regular_file::{self, MAX_FILE_BYTES},
};

/// The settings of `auth.limits` that are defaults for callers.
const DEFAULT_LIMITS: [&str; 3] = ["requests_per_minute", "tokens_per_day", "in_flight"];

/// URL of an issuer's keys that are never fetched (RFC 2606, section 2).
const UNUSED_JWKS_URL: &str = "https://jwks.invalid/";

impl Config {
    /// Checks that other machines need a credential at listeners that are bound to these
    /// addresses, which are those of the start and may differ from the ones of this config.
    ///
    /// # Errors
    ///
    /// Returns a problem for each listener that would be open.
    pub fn check_bound_addresses(
        &self,
        agents: SocketAddr,
        operators: SocketAddr,
    ) -> Result<(), ConfigError> {
        let mut problems = Vec::new();
        let is_open = |bound: SocketAddr| !bound.ip().is_loopback();
        // On loopback, `anonymous` permits nothing to other machines.
        let allows_anonymous = self.auth.anonymous && is_open(self.listen);
        if is_open(agents) && !self.auth.is_required() && !allows_anonymous {
            let option = option("--listen", &self.listener_spans.agents);
            let bound = still_bound(agents, self.listen);
            let remedy = if agents == self.listen {
                "allow this by `auth: { anonymous: true }`"
            } else {
                "restart"
            };
            let message = format!(
                "{option}agents on other machines can connect without authentication{bound}: configure callers in `auth`, or {remedy}"
            );
            problems.push(Problem::at(&self.listener_spans.agents, message));
        }
        if is_open(operators) && !self.admin.requires_credential() {
            let option = option("--admin-listen", &self.listener_spans.operators);
            let bound = still_bound(operators, self.admin.listen);
            let message = format!(
                "{option}operators on other machines can connect{bound}: `admin.token` or `admin.users` is missing"
            );
            problems.push(Problem::at(&self.listener_spans.operators, message));
        }
        ConfigError::check(problems)
    }
}

impl Loader {
    /// Resolves and checks `auth`. Returns the policies that restrict callers to
    /// their models and tools.
    pub(super) fn callers(&mut self) -> Vec<PolicySpec> {
        self.read_jwks();
        self.fill_in_grants();
        let span = span_to_value(&self.document.span("/auth/jwt"));
        if let Some(jwt) = self.mapping_mut("/auth/jwt") {
            jwt.insert("span".to_owned(), span);
        }
        let auth = self.section::<Auth>("/auth");
        self.warn_of_unknown_callers(auth.as_ref());
        let Some(auth) = auth else {
            return Vec::new();
        };
        self.check_duplicate_keys(&auth.keys);
        self.check_methods(&auth);
        self.caller_policies(&auth)
    }

    /// Warns of callers that no key has. The names in tokens and certificates are not known.
    fn warn_of_unknown_callers(&mut self, auth: Option<&Auth>) {
        if auth.is_some_and(|auth| auth.jwt.is_some() || auth.mtls.is_some()) {
            return;
        }
        let keys = auth.map_or(&[][..], |auth| &auth.keys);
        for list in ["/rollout/callers/*", "/record/what/callers/*"] {
            for pointer in matching(&self.value, list) {
                let name = self.value.pointer(&pointer).and_then(Value::as_str);
                let name = name.unwrap_or_default().to_owned();
                if !keys.iter().any(|key| key.name == name) {
                    let message = format!("no key of `auth.keys` has the name `{name}`");
                    self.warning(&pointer, message);
                }
            }
        }
    }

    /// Replaces the path of an issuer's keys by the content of the file. With placeholders for
    /// secrets, no token is verified and the file need not exist.
    fn read_jwks(&mut self) {
        let pointer = "/auth/jwt/jwks/file";
        let Some(path) = self.section::<PathBuf>(pointer) else {
            return;
        };
        if self.missing_secrets == MissingSecrets::Placeholder {
            if let Some(jwks) = self.value.pointer_mut("/auth/jwt/jwks") {
                *jwks = UNUSED_JWKS_URL.into();
            }
            return;
        }
        let file = self.file(&path);
        let content = regular_file::read_text(&file, MAX_FILE_BYTES).unwrap_or_else(|error| {
            let message = format!("file `{}` cannot be read: {error}", path.display());
            self.problem(pointer, message);
            String::new()
        });
        if let Some(path) = self.value.pointer_mut(pointer) {
            *path = content.into();
        }
    }

    /// Copies the defaults of `auth.limits` into the grants of callers.
    fn fill_in_grants(&mut self) {
        let total = self.section("/limits/in_flight");
        let total: usize = total.unwrap_or(Limits::default().in_flight);
        // No caller may use all slots.
        let in_flight = json!((total / 2).max(1));
        let mut defaults = Map::from_iter([("in_flight".to_owned(), in_flight)]);
        let limits = self
            .value
            .pointer("/auth/limits")
            .and_then(Value::as_object);
        let limits = limits.cloned().unwrap_or_default();
        let of_callers = |(name, _): &(String, Value)| DEFAULT_LIMITS.contains(&name.as_str());
        let limits: Map<String, Value> = limits.into_iter().filter(of_callers).collect();
        let shared_in_flight = limits.get("in_flight").cloned();
        defaults.extend(limits);
        let patterns = ["/auth/keys/*", "/auth/jwt", "/auth/mtls"];
        let pointers = patterns.map(|pattern| matching(&self.value, pattern));
        let pointers = pointers.concat();
        for pointer in pointers {
            if let Some(caller) = self.mapping_mut(&pointer) {
                let own = caller.get("in_flight").cloned();
                let shared = own.or_else(|| shared_in_flight.clone());
                fill_in(caller, &defaults);
                caller.extend(shared.map(|limit| ("shared_in_flight".to_owned(), limit)));
            }
        }
    }

    fn caller_policies(&self, auth: &Auth) -> Vec<PolicySpec> {
        let callers = auth.grants().flat_map(|(pointer, name, grant)| {
            let callers = match pointer.as_str() {
                "/auth/jwt" => CallerPattern::Prefix(TOKEN_PREFIX),
                "/auth/mtls" => CallerPattern::Prefix(CERTIFICATE_PREFIX),
                _ => CallerPattern::Name(name.to_owned()),
            };
            self.grant_policies(&pointer, name, &callers, grant)
        });
        callers.collect()
    }

    fn grant_policies(
        &self,
        pointer: &str,
        name: &str,
        callers: &CallerPattern,
        grant: &Grant,
    ) -> Vec<PolicySpec> {
        let lists = [
            ("models", "model_allow", "models", &grant.models),
            ("tools", "tool_guard", "allow", &grant.tools),
        ];
        let policies = lists
            .into_iter()
            .filter_map(|(key, policy, setting, globs)| {
                let span = self.document.span(&format!("{pointer}/{key}"));
                let settings = Map::from_iter([(setting.to_owned(), json!(globs.as_ref()?))]);
                Some(PolicySpec {
                    name: Some(format!("{name} {key}")),
                    policy: policy.to_owned(),
                    mode: HookMode::Enforce,
                    when: None,
                    callers: Some(callers.clone()),
                    settings: HookSettings(settings),
                    proof: ProofCases::default(),
                    span,
                })
            });
        policies.collect()
    }

    fn check_duplicate_keys(&mut self, keys: &[KeySpec]) {
        let (mut names, mut hashes) = (BTreeSet::new(), BTreeSet::new());
        for (index, key) in keys.iter().enumerate() {
            if !names.insert(&key.name) {
                let message = format!("two callers are named `{}`", key.name);
                self.problem(&format!("/auth/keys/{index}/name"), message);
            }
            if !hashes.insert(key.sha256) {
                let message = "two callers have this key";
                self.problem(&format!("/auth/keys/{index}/sha256"), message);
            }
        }
    }

    fn check_methods(&mut self, auth: &Auth) {
        if auth.is_required() && auth.anonymous {
            let message = "`auth` cannot both require authentication and allow anonymous callers";
            self.problem("/auth/anonymous", message);
        }
        if !auth.is_required() && !auth.anonymous {
            let message =
                "`auth` has no method: it needs `keys`, `jwt`, `mtls` or `anonymous: true`";
            self.problem("/auth", message);
        }
        if auth.mtls.is_some() && self.value.pointer("/tls/client_ca").is_none() {
            let message =
                "client certificates are not requested: `auth.mtls` needs `tls.client_ca`";
            self.problem("/auth/mtls", message);
        }
        if auth.anonymous && self.value.pointer("/auth/limits").is_some() {
            let message = "`auth.limits` needs authenticated callers";
            self.problem("/auth/limits", message);
        }
    }

    /// Warns of callers whose requests reach the model API without any credential,
    /// because they present theirs to hookgate.
    pub(super) fn warn_of_missing_keys(&mut self, auth: &Auth, upstreams: &UpstreamsConfig) {
        let keyless = upstreams
            .iter()
            .filter(|(_, upstream)| upstream.credential.is_none());
        for (api, _) in keyless {
            // Certificates are no headers, so these callers can send a key of their own.
            let mut callers = auth
                .grants()
                .filter(|(pointer, ..)| pointer != "/auth/mtls");
            if let Some((pointer, ..)) = callers.find(|(.., grant)| grant.key_for(api).is_none()) {
                let message = format!(
                    "`upstreams.{api}` has no key, and the caller's credential is for hookgate: the caller must also send its own key for the model API, and hookgate's as `x-hookgate-key`"
                );
                self.warning(&pointer, message);
            }
        }
    }

    /// Checks that the listeners have different addresses, and that they are not open to other
    /// machines by accident. Keeps their positions for later checks.
    pub(super) fn check_listeners(&mut self, config: &mut Config) {
        config.listener_spans = ListenerSpans {
            agents: self.document.span("/listen"),
            operators: self.document.span("/admin/listen"),
        };
        let (agents, operators) = (config.listen, config.admin.listen);
        let same_port = agents.port() != 0 && agents.port() == operators.port();
        let overlap = agents.ip() == operators.ip()
            || agents.ip().is_unspecified()
            || operators.ip().is_unspecified();
        if same_port && overlap {
            let message = format!("agents and operators cannot share the address `{agents}`");
            self.problem("/admin/listen", message);
        }
        if !agents.ip().is_loopback() && config.auth.anonymous {
            let message = "agents on other machines can connect without authentication";
            self.warning("/listen", message);
        }
        if let Err(error) = config.check_bound_addresses(agents, operators) {
            self.problems.extend(error.problems);
        }
    }
}

/// Returns the part of a message about an address that is not the one of the config.
fn still_bound(bound: SocketAddr, configured: SocketAddr) -> String {
    if bound == configured {
        return String::new();
    }
    format!(" until a restart, because the listener stays at `{bound}`")
}

/// Returns the beginning of a message about an address that only a command-line option can have
/// set.
fn option(name: &str, span: &SourceSpan) -> String {
    if span.is_in_file() {
        return String::new();
    }
    format!("`{name}` without `--config`: ")
}
