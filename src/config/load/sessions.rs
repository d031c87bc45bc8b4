//! Checks of limits, and of the stores of sessions and limits.

use secrecy::ExposeSecret;
use url::Url;

use super::loader::Loader;
use crate::config::{overrides::MissingSecrets, secret::Secret, settings::config_file::Config};

impl Loader {
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
                let message =
                    "the secret is not a URL such as `redis://HOST:PORT` or `rediss://HOST:PORT`";
                self.problem(&pointer, message);
            }
        }
    }
}

fn is_redis_url(text: &str) -> bool {
    Url::parse(text).is_ok_and(|url| {
        matches!(url.scheme(), "redis" | "rediss")
            && url.host_str().is_some_and(|host| !host.is_empty())
            && url.fragment().is_none()
    })
}
