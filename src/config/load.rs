//! Loading of a config: validates the document, resolves what it refers to, and
//! deserializes the result.

mod audit_sink;
mod callers;
mod foreign_settings;
mod hooks;
mod layers;
mod lints;
mod loader;
mod overridden_settings;
mod paths;
mod pointers;
mod programs;
mod proofs;
mod secrets;
mod sections;
mod settings_json;
mod source;
mod tls;
mod upstreams;

use std::{mem, path::Path, sync::Arc};

use serde_json::Value;

use self::{
    hooks::HookBlock, layers::add_layers, loader::Loader, overridden_settings::set_addresses,
};
use super::{
    config_document::ConfigDocument,
    overrides::Overrides,
    registry::Registry,
    schema::schema,
    settings::config_file::Config,
    source_span::{ConfigError, Problem},
    spanned_yaml::SpannedYaml,
};
use crate::{
    regular_file::{MAX_FILE_BYTES, PIPE_TIMEOUT, read_text_or_pipe},
    sha256::sha256_hex,
};

impl Config {
    /// Reads the config file at `path`, which may be a pipe, and all files that it names.
    ///
    /// # Errors
    ///
    /// All problems of the config, each with its position.
    pub fn load(
        path: &Path,
        overrides: &Overrides,
        registry: &Registry,
    ) -> Result<Self, ConfigError> {
        if path == Path::new("-") {
            let message = "a config is not read from stdin, because its paths begin at its directory: name a file";
            return Err(Problem::without_span(message).into());
        }
        let text = match &overrides.stored {
            Some(stored) => Ok(stored.config.clone()),
            None => read_text_or_pipe(path, MAX_FILE_BYTES, PIPE_TIMEOUT),
        };
        let text = text.map_err(|error| {
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
            let message = "give `--config FILE`, or `--upstream URL`";
            return Err(Problem::without_span(message).into());
        }
        Self::from_text("", Path::new(""), overrides, registry)
    }

    /// Returns the JSON Schema of the config file.
    pub fn schema(registry: &Registry) -> Value {
        schema::<Self>(registry)
    }

    fn from_text(
        text: &str,
        file: &Path,
        overrides: &Overrides,
        registry: &Registry,
    ) -> Result<Self, ConfigError> {
        let mut document = SpannedYaml::parse(text, file)?;
        add_layers(&mut document, overrides)?;
        let value = document.value();
        let mut config = Self::from_document(&document, value, overrides, registry)?;
        text.clone_into(&mut Arc::make_mut(&mut config.texts).config);
        Ok(config)
    }

    /// Loads a config from `value`, which is all or part of `document`.
    ///
    /// # Errors
    ///
    /// All problems of the config, each with its position.
    pub(crate) fn from_document(
        document: &SpannedYaml,
        value: Value,
        overrides: &Overrides,
        registry: &Registry,
    ) -> Result<Self, ConfigError> {
        let mut loader = Loader::new(document.clone(), value, overrides, registry)?;
        // The version does not change with the addresses.
        let written = loader.value.to_string();
        set_addresses(&mut loader.value, overrides);
        let schema = Self::schema(registry);
        let mut shown = ConfigDocument::new(document, &loader.value, &schema);
        let mut value = loader.value.take();
        loader.resolve_secrets(&mut value, document);
        loader.annotate_proofs(document, &mut value);
        loader.value = value;
        loader.check_credentials();
        loader.check_upstream_headers();
        let caller_policies = loader.callers();
        let (tls, admin_tls) = (loader.tls("/tls"), loader.tls("/admin/tls"));
        loader.check_redis_urls();
        loader.check_telemetry();
        loader.check_audit_sink();
        loader.check_trace();
        loader.check_paths();
        loader.check_rollout();
        loader.check_source();
        let blocks = loader.hook_blocks(&overrides.hooks, registry);
        loader.annotate_policies();
        loader.fail_if_problems()?;
        let version = version(&written, &blocks, &loader);
        for file in hook_files(&blocks) {
            shown.add_settings_file(&file.document);
        }

        let mut config: Self = loader.deserialize()?;
        loader.check_upstreams(&config);
        loader.check_listeners(&mut config);
        loader.check_admin_users(&config.admin);
        loader.warn_of_missing_keys(&config.auth, &config.upstreams);
        loader.warn_of_unreachable_limits(&config);
        loader.warn_of_settings_without_effect(&config);
        loader.warn_of_unused_keys(&config.auth, &config.upstreams);
        loader.warn_of_plain_text(&config.auth, &config.upstreams);
        loader.fail_if_problems()?;

        (config.tls, config.admin.tls) = (tls, admin_tls);
        config.caller_policies = caller_policies;
        loader.resolve_paths(&mut config);
        loader.merge_hooks(blocks, &mut config);
        loader.fail_if_problems()?;
        loader.warn_of_missing_programs(&config);
        loader.check_layers(&config)?;
        (config.version, config.files) = (version, loader.watched_files());
        config.warnings = loader.warnings;
        config.document = Arc::new(shown);
        config.layers = loader.layers;
        config.texts = Arc::new(mem::take(&mut loader.texts));
        Ok(config)
    }
}

/// Returns the blocks of hook files. The last block is that of the config itself.
fn hook_files(blocks: &[HookBlock]) -> &[HookBlock] {
    blocks.split_last().map_or(&[], |(_own, files)| files)
}

/// Hashes the config, its hook files, its bundles and its case files. None contains secrets.
fn version(config: &str, blocks: &[HookBlock], loader: &Loader) -> String {
    let files = hook_files(blocks).iter();
    let files = files.map(|file| file.document.value().to_string());
    let bundles = loader.layers.iter().map(|layer| layer.digest.clone());
    let cases = loader.case_texts.iter().cloned();
    let parts = std::iter::once(config.to_owned()).chain(files);
    let parts: Vec<String> = parts.chain(bundles).chain(cases).collect();
    let mut version = sha256_hex(parts.join("\0"));
    version.truncate(16);
    version
}

#[cfg(test)]
mod tests;
