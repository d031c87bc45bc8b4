//! From `auth` as written to callers, and to the policies that hold for them.

use std::{collections::BTreeMap, net::SocketAddr};

use serde_json::{Map, Value, json};

use super::Reading;
use crate::config::{
    Admin, Auth, Credential, Grant, HookMode, HookSettings, JwksOrigin, JwtSpec, KeySpec, MtlsSpec,
    PolicySpec, UpstreamsConfig, When,
    auth::{CERTIFICATE_PREFIX, TOKEN_PREFIX},
    raw_auth::{RawAuth, RawCallerLimits, RawGrant, RawJwks},
};

/// What `auth` comes to.
#[derive(Debug, Default)]
pub(super) struct Callers {
    pub(super) auth: Auth,
    /// What each caller may use, as policies.
    pub(super) policies: Vec<PolicySpec>,
}

impl Reading {
    /// Reads `auth`. `in_flight` is how many requests may be under way in all.
    pub(super) fn callers(&mut self) -> Callers {
        let Some(raw) = self.section::<RawAuth>("/auth") else {
            return Callers::default();
        };
        let total: Option<usize> = self.section("/limits/in_flight");
        let defaults = Defaults {
            limits: raw.limits,
            // One caller alone must leave room for others.
            in_flight: (total.unwrap_or(super::DEFAULT_IN_FLIGHT) / 2).max(1),
        };
        let says_how = !raw.keys.is_empty() || raw.jwt.is_some() || raw.mtls.is_some();
        let mut callers = Callers::default();
        for (index, raw) in raw.keys.into_iter().enumerate() {
            let at = format!("/auth/keys/{index}");
            let is_caller = format!("caller.name == {}", json!(raw.name));
            self.restrict(&mut callers, (&at, &raw.name, &is_caller), &raw.grant);
            callers.auth.keys.push(KeySpec {
                name: raw.name,
                sha256: digest(&raw.sha256),
                grant: self.grant(&at, &raw.grant, &defaults),
            });
        }
        self.check_doubles(&callers.auth.keys);
        if let Some(raw) = raw.jwt {
            let is_caller = format!("caller.name.startsWith({})", json!(TOKEN_PREFIX));
            self.restrict(&mut callers, ("/auth/jwt", "jwt", &is_caller), &raw.grant);
            callers.auth.jwt = self.jwks(raw.jwks).map(|jwks| JwtSpec {
                issuer: raw.issuer,
                audience: raw.audience,
                jwks,
                name: raw.name,
                grant: self.grant("/auth/jwt", &raw.grant, &defaults),
                place: self.tree.place("/auth/jwt"),
            });
        }
        if let Some(raw) = raw.mtls {
            let is_caller = format!("caller.name.startsWith({})", json!(CERTIFICATE_PREFIX));
            self.restrict(&mut callers, ("/auth/mtls", "mtls", &is_caller), &raw.grant);
            callers.auth.mtls = Some(MtlsSpec {
                name: raw.name,
                allow: raw.allow,
                grant: self.grant("/auth/mtls", &raw.grant, &defaults),
            });
        }
        callers.auth.anonymous = raw.anonymous;
        self.check_ways(&callers.auth, says_how);
        callers
    }

    /// What a caller may use, as policies: they bind wherever policies do.
    fn restrict(
        &self,
        callers: &mut Callers,
        (at, name, is_caller): (&str, &str, &str),
        raw: &RawGrant,
    ) {
        for (policy, setting, globs) in raw.policies() {
            let what = if setting == "models" {
                "models"
            } else {
                "tools"
            };
            let place = self.tree.place(&format!("{at}/{what}"));
            let settings = Map::from_iter([(setting.to_owned(), Value::from(globs))]);
            callers.policies.push(PolicySpec {
                name: Some(format!("{name} {what}")),
                policy: policy.to_owned(),
                mode: HookMode::Enforce,
                when: Some(When {
                    text: is_caller.to_owned(),
                    place: place.clone(),
                }),
                settings: HookSettings(settings),
                place,
            });
        }
    }

    fn grant(&mut self, at: &str, raw: &RawGrant, defaults: &Defaults) -> Grant {
        let key = self.secret(&format!("{at}/upstream_key"));
        let limits = &defaults.limits;
        let rate = raw.requests_per_minute.or(limits.requests_per_minute);
        let tokens = raw.tokens_per_day.or(limits.tokens_per_day);
        let in_flight = raw.in_flight.or(limits.in_flight);
        Grant {
            upstream: key.map(Credential::ApiKey),
            requests_per_minute: rate.map(|it| it.0),
            tokens_per_day: tokens.map(|it| it.0),
            in_flight: in_flight.map_or(defaults.in_flight, |it| it.0),
            has_lists: raw.models.is_some() || raw.tools.is_some(),
        }
    }

    fn jwks(&mut self, raw: RawJwks) -> Option<JwksOrigin> {
        let file = match raw {
            RawJwks::Url(url) => return Some(JwksOrigin::Url(url)),
            RawJwks::File { file } => file.0,
        };
        let path = self.directory.join(&file);
        self.files.push(path.clone());
        match std::fs::read_to_string(&path) {
            Ok(text) => Some(JwksOrigin::File(path, text)),
            Err(error) => {
                let message = format!("file `{}` cannot be read: {error}", file.display());
                self.problem("/auth/jwt/jwks/file", &message);
                None
            }
        }
    }

    /// Of two callers with one name or key, nobody could say which it is.
    fn check_doubles(&mut self, keys: &[KeySpec]) {
        let (mut names, mut hashes) = (BTreeMap::new(), BTreeMap::new());
        for (index, key) in keys.iter().enumerate() {
            if names.insert(&key.name, index).is_some() {
                let message = format!("two callers are named `{}`", key.name);
                self.problem(&format!("/auth/keys/{index}/name"), &message);
            }
            if hashes.insert(key.sha256, index).is_some() {
                let message = "two callers have this key";
                self.problem(&format!("/auth/keys/{index}/sha256"), message);
            }
        }
    }

    fn check_ways(&mut self, auth: &Auth, says_how: bool) {
        if says_how && auth.anonymous {
            let message = "`auth` cannot both ask who calls and let in everybody";
            self.problem("/auth/anonymous", message);
        }
        if !says_how && !auth.anonymous {
            let message = "`auth` says of nobody how they are known: it needs `keys`, `jwt`, `mtls` or `anonymous: true`";
            self.problem("/auth", message);
        }
        if auth.mtls.is_some() && self.value.pointer("/tls/client_ca").is_none() {
            let message = "nobody is asked for a certificate: `auth.mtls` needs `tls.client_ca`";
            self.problem("/auth/mtls", message);
        }
        if auth.anonymous && self.value.pointer("/auth/limits").is_some() {
            let message = "`auth.limits` needs callers that are known";
            self.problem("/auth/limits", message);
        }
    }

    /// Warns of callers whose requests arrive at the model API without any
    /// credential: what they show is for hookgate.
    pub(super) fn warn_of_missing_keys(&mut self, auth: &Auth, upstreams: &UpstreamsConfig) {
        let bare = upstreams.each().find(|(_, it)| it.credential.is_none());
        let Some((api, _)) = bare else {
            return;
        };
        let own = |grant: &Grant| grant.upstream.is_some();
        let without = auth.keys.iter().position(|it| !own(&it.grant));
        let at = without.map(|it| format!("/auth/keys/{it}"));
        let token = auth.jwt.as_ref().filter(|it| !own(&it.grant));
        let at = at.or_else(|| token.map(|_| "/auth/jwt".to_owned()));
        if let Some(at) = at {
            let message = format!(
                "what this caller shows is for hookgate, and `upstreams.{api}` has no key: the caller must show its own key for the model API as well, and hookgate's as `x-hookgate-key`"
            );
            self.warning(&at, &message);
        }
    }

    /// Two listeners cannot share one address, and one that is open to other
    /// machines must not be so by accident.
    pub(super) fn check_listeners(&mut self, listen: SocketAddr, admin: &Admin, auth: &Auth) {
        let one_port = listen.port() != 0 && listen.port() == admin.listen.port();
        let (ip, admin_ip) = (listen.ip(), admin.listen.ip());
        let overlap = ip == admin_ip || ip.is_unspecified() || admin_ip.is_unspecified();
        if one_port && overlap {
            let message = format!("agents and operators cannot share the address `{listen}`");
            self.problem("/admin/listen", &message);
        }
        if !ip.is_loopback() && !auth.asks() {
            let message = "agents on other machines can connect, and nobody asks who they are";
            if auth.anonymous {
                self.warning("/listen", message);
            } else {
                let message = format!(
                    "{message}: name them in `auth`, or say that this is meant by `auth: {{ anonymous: true }}`"
                );
                self.problem("/listen", &message);
            }
        }
        if !admin_ip.is_loopback() && admin.token.is_none() {
            let message = "operators on other machines can connect: `admin.token` is missing";
            self.problem("/admin/listen", message);
        }
    }
}

/// What callers get that do not have their own.
struct Defaults {
    limits: RawCallerLimits,
    in_flight: usize,
}

/// The bytes that 64 hex digits write.
fn digest(hex: &str) -> [u8; 32] {
    let mut bytes = [0; 32];
    let digits = hex.chars().filter_map(|it| it.to_digit(16));
    let digits: Vec<u8> = digits.filter_map(|it| u8::try_from(it).ok()).collect();
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
        *byte = pair.iter().fold(0, |sum, it| sum << 4 | it);
    }
    bytes
}
