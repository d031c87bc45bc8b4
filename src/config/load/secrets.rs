//! Replaces the references to secrets in a document by the secrets.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Value, json};

use super::pointers::matching;
use crate::config::{
    overrides::MissingSecrets,
    secret::{SecretChars, SecretReference},
    source_span::Problem,
    spanned_yaml::SpannedYaml,
};

/// The settings of type [`crate::config::Secret`], also those of hooks and policies.
const SECRETS: &[(&str, SecretChars)] = &[
    ("/admin/token", SecretChars::Token),
    ("/upstreams/*/api_key", SecretChars::Token),
    ("/upstreams/*/bearer", SecretChars::Token),
    ("/upstreams/*/fallback/api_key", SecretChars::Token),
    ("/upstreams/*/fallback/bearer", SecretChars::Token),
    ("/auth/keys/*/upstream_key", SecretChars::Token),
    ("/auth/jwt/upstream_key", SecretChars::Token),
    ("/auth/mtls/upstream_key", SecretChars::Token),
    ("/sessions/store/redis/url", SecretChars::Token),
    ("/telemetry/otlp/headers/*", SecretChars::HeaderValue),
    ("/policies/*/key", SecretChars::Token),
    ("/hooks/*/*/hooks/*/bearer", SecretChars::Token),
    ("/hooks/*/*/hooks/*/key", SecretChars::Token),
];

/// Reads secrets for documents.
#[derive(Debug)]
pub(super) struct SecretResolver<'a> {
    /// The start of relative paths.
    pub(super) directory: &'a Path,
    pub(super) missing: MissingSecrets,
    /// The files of secrets.
    pub(super) files: &'a mut Vec<PathBuf>,
    pub(super) problems: &'a mut Vec<Problem>,
}

impl SecretResolver<'_> {
    /// Replaces every reference in `value`. One that is invalid or cannot be read
    /// becomes an empty text, so that the rest of its section can still be checked.
    pub(super) fn resolve(&mut self, value: &mut Value, document: &SpannedYaml) {
        for (pattern, allowed) in SECRETS {
            for pointer in matching(value, pattern) {
                self.resolve_at(&pointer, *allowed, value, document);
            }
        }
        for pointer in matching(value, "/upstreams/*/headers/*") {
            if value.pointer(&pointer).is_some_and(Value::is_object) {
                self.resolve_at(&pointer, SecretChars::HeaderValue, value, document);
                // Distinguishes the secret from plain text.
                if let Some(setting) = value.pointer_mut(&pointer) {
                    *setting = json!({ "secret": setting.take() });
                }
            }
        }
    }

    fn resolve_at(
        &mut self,
        pointer: &str,
        allowed: SecretChars,
        value: &mut Value,
        document: &SpannedYaml,
    ) {
        let Some(setting) = value.pointer_mut(pointer) else {
            return;
        };
        *setting = match self.read(setting, allowed) {
            Ok(text) => text.into(),
            Err(message) => {
                self.problems
                    .push(Problem::at(&document.span(pointer), message));
                "".into()
            }
        };
    }

    fn read(&mut self, setting: &Value, allowed: SecretChars) -> Result<String, String> {
        let Ok(source) = SecretReference::deserialize(setting) else {
            // The validation has reported this.
            return Ok(String::new());
        };
        if let SecretReference::File(path) = &source {
            self.files.push(self.directory.join(path));
        }
        source.read(self.directory, self.missing, allowed)
    }
}
