//! Loading of a config: validates the document, resolves what it refers to, and
//! deserializes the result.

mod callers;
mod hooks;
mod lints;
mod loader;
mod overridden_upstreams;
mod paths;
mod pointers;
mod secrets;
mod sessions;
mod settings_json;
mod telemetry;
mod tls;
mod upstreams;

use std::path::Path;

use data_encoding::HEXLOWER;
use serde_json::Value;
use sha2::{Digest, Sha256};

use self::{
    hooks::{HookBlock, merge},
    loader::Loader,
};
use super::{
    overrides::Overrides,
    registry::Registry,
    schema::schema,
    settings::{
        config_file::{Config, ConfigFile},
        listeners::AdminSettings,
    },
    source_span::{ConfigError, Problem},
    spanned_yaml::SpannedYaml,
};

impl Config {
    /// Reads the config file at `path` and all files that it names.
    ///
    /// # Errors
    ///
    /// All problems of the config, each with its position.
    pub fn load(
        path: &Path,
        overrides: &Overrides,
        registry: &Registry,
    ) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path).map_err(|error| {
            let message = format!("`{}` cannot be read: {error}", path.display());
            Problem::without_span(message)
        })?;
        Self::from_text(&text, path, overrides, registry)
    }

    /// Parses `text` as the content of `file`, and reads all files that it names.
    ///
    /// # Errors
    ///
    /// All problems of the config, each with its position.
    pub fn parse(text: &str, file: &Path, registry: &Registry) -> Result<Self, ConfigError> {
        Self::from_text(text, file, &Overrides::default(), registry)
    }

    /// Returns the default config with the overrides of the command line, which must
    /// name an upstream.
    ///
    /// # Errors
    ///
    /// All problems of the overrides.
    pub fn without_file(overrides: &Overrides, registry: &Registry) -> Result<Self, ConfigError> {
        if overrides.upstream.is_none() && overrides.missing_upstreams.is_none() {
            let message = "without a config file, `--upstream` is required";
            return Err(Problem::without_span(message).into());
        }
        Self::from_text("", Path::new(""), overrides, registry)
    }

    /// Returns the JSON Schema of the config file.
    pub fn schema(registry: &Registry) -> Value {
        schema::<ConfigFile>(registry)
    }

    fn from_text(
        text: &str,
        file: &Path,
        overrides: &Overrides,
        registry: &Registry,
    ) -> Result<Self, ConfigError> {
        let document = SpannedYaml::parse(text, file)?;
        let value = document.value();
        Self::from_document(document, value, overrides, registry)
    }

    /// Loads a config from `value`, which is all or part of `document`.
    ///
    /// # Errors
    ///
    /// All problems of the config, each with its position.
    #[expect(clippy::too_many_lines, reason = "one conversion, field by field")]
    pub(crate) fn from_document(
        document: SpannedYaml,
        value: Value,
        overrides: &Overrides,
        registry: &Registry,
    ) -> Result<Self, ConfigError> {
        let mut loader = Loader::new(document, value, overrides, registry)?;
        let written = loader.value.to_string();
        loader.resolve_secrets();
        loader.check_credentials();
        loader.check_upstream_headers();
        let caller_policies = loader.callers();
        let (tls, admin_tls) = (loader.tls("/tls"), loader.tls("/admin/tls"));
        let hook_directory = loader.hook_directory();
        loader.check_redis_url();
        loader.check_telemetry();
        let (transcripts, audit_path) = (loader.transcripts(), loader.audit_path());
        let blocks = loader.hook_blocks(&overrides.hooks, registry);
        loader.annotate_policies();
        loader.fail_if_problems()?;
        let version = version(&written, &blocks);

        let file: ConfigFile = loader.deserialize()?;
        let listen = overrides.listen.unwrap_or(file.listen);
        let admin = AdminSettings {
            listen: overrides.admin_listen.unwrap_or(file.admin.listen),
            tls: admin_tls,
            token: file.admin.token,
        };
        loader.check_upstreams(&file.upstreams, &file.coverage, registry);
        loader.check_listeners(listen, &admin, &file.auth);
        loader.warn_of_missing_keys(&file.auth, &file.upstreams);
        loader.warn_of_plain_text(&file.auth, &file.upstreams);
        loader.fail_if_problems()?;

        let (hooks, hook_warnings) = merge(blocks);
        loader.warnings.extend(hook_warnings);
        let mut sessions = file.sessions;
        sessions.transcripts = transcripts;
        let mut audit = file.audit;
        if let (Some(audit), Some(path)) = (&mut audit, audit_path) {
            audit.path = path;
        }
        Ok(Self {
            listen,
            tls,
            admin,
            upstreams: file.upstreams,
            coverage: file.coverage,
            auth: file.auth,
            browsers: file.browsers,
            policies: file.policies,
            caller_policies,
            hooks,
            hook_directory,
            denials: file.denials,
            ask: file.ask,
            after_model: file.after_model,
            events: file.events,
            sessions,
            limits: file.limits,
            timeouts: file.timeouts,
            log: file.log,
            audit,
            otlp: file.telemetry.otlp,
            version,
            files: loader.files,
            warnings: loader.warnings,
        })
    }
}

/// Hashes the config and its hook files. Neither contains secrets.
fn version(config: &str, blocks: &[HookBlock]) -> String {
    let blocks = blocks.iter().filter_map(HookBlock::file_content);
    let parts: Vec<String> = std::iter::once(config.to_owned()).chain(blocks).collect();
    let mut version = HEXLOWER.encode(&Sha256::digest(parts.join("\0")));
    version.truncate(16);
    version
}

#[cfg(test)]
mod tests;
