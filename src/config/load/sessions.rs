//! Checks of the stores of sessions and limits.

use secrecy::ExposeSecret;
use url::Url;

use super::loader::Loader;
use crate::config::{overrides::MissingSecrets, secret::Secret};

impl Loader {
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
