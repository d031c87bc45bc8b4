//! Replaces the references to secrets in a document by the secrets.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

use super::{layers::capability_refusal, loader::Loader, pointers::matching};
use crate::config::{
    policy_layer::BundleCapability,
    secret::{SecretChars, SecretReference},
    source_span::Problem,
    spanned_yaml::SpannedYaml,
};

/// The settings of type [`crate::config::Secret`], also those of hooks and policies.
const SECRETS: &[(&str, SecretChars)] = &[
    ("/admin/token", SecretChars::Token),
    ("/admin/users/*/token", SecretChars::Token),
    ("/upstreams/*/api_key", SecretChars::Token),
    ("/upstreams/*/bearer", SecretChars::Token),
    ("/upstreams/*/fallback/api_key", SecretChars::Token),
    ("/upstreams/*/fallback/bearer", SecretChars::Token),
    ("/auth/keys/*/upstream_key", SecretChars::Token),
    ("/auth/jwt/upstream_key", SecretChars::Token),
    ("/auth/mtls/upstream_key", SecretChars::Token),
    ("/auth/keys/*/upstream_keys/*", SecretChars::Token),
    ("/auth/jwt/upstream_keys/*", SecretChars::Token),
    ("/auth/mtls/upstream_keys/*", SecretChars::Token),
    ("/auth/limits/store/redis/url", SecretChars::Token),
    ("/sessions/store/redis/url", SecretChars::Token),
    ("/source/token", SecretChars::Token),
    ("/source/layers/*/token", SecretChars::Token),
    ("/telemetry/otlp/headers/*", SecretChars::HeaderValue),
    ("/audit/sink/token", SecretChars::Token),
    ("/audit/sink/headers/*", SecretChars::HeaderValue),
    ("/policies/*/key", SecretChars::Token),
    ("/hooks/*/*/hooks/*/bearer", SecretChars::Token),
    ("/hooks/*/*/hooks/*/key", SecretChars::Token),
];

impl Loader {
    /// Replaces every reference in `value`, which is all or part of `document`. One that is
    /// invalid or cannot be read becomes an empty text, so that the rest of its section can
    /// still be checked.
    pub(super) fn resolve_secrets(&mut self, value: &mut Value, document: &SpannedYaml) {
        for (pattern, allowed) in SECRETS {
            for pointer in matching(value, pattern) {
                self.resolve_secret(&pointer, *allowed, value, document);
            }
        }
        for pointer in matching(value, "/upstreams/*/headers/*") {
            if value.pointer(&pointer).is_some_and(Value::is_object) {
                self.resolve_secret(&pointer, SecretChars::HeaderValue, value, document);
                // Distinguishes the secret from plain text.
                if let Some(setting) = value.pointer_mut(&pointer) {
                    *setting = json!({ "secret": setting.take() });
                }
            }
        }
    }

    fn resolve_secret(
        &mut self,
        pointer: &str,
        allowed: SecretChars,
        value: &mut Value,
        document: &SpannedYaml,
    ) {
        let Some(setting) = value.pointer_mut(pointer) else {
            return;
        };
        let span = document.span(pointer);
        let refusal = capability_refusal(&self.layers, &span, BundleCapability::Secrets);
        let text = if let Some(reason) = refusal {
            Err(format!("the setting refers to a secret, but {reason}"))
        } else {
            let directory = self.directory_at(&span);
            self.read_secret(setting, &directory, allowed)
        };
        let text = text.unwrap_or_else(|message| {
            self.problems.push(Problem::at(&span, message));
            String::new()
        });
        *setting = text.into();
    }

    fn read_secret(
        &mut self,
        setting: &Value,
        directory: &Path,
        allowed: SecretChars,
    ) -> Result<String, String> {
        let Ok(source) = SecretReference::deserialize(setting) else {
            // The validation has reported this.
            return Ok(String::new());
        };
        if let SecretReference::File(path) = &source {
            self.files.push(directory.join(path));
        }
        source.read(directory, self.missing_secrets, allowed)
    }
}
