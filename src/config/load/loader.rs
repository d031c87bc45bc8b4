//! The state of loading a config.

use std::{
    io,
    path::{Component, Path, PathBuf},
    sync::Arc,
};

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::overridden_settings::add_upstreams;
use crate::{
    config::{
        config_files::ConfigFiles,
        overrides::{MissingSecrets, Overrides},
        policy_layer::PolicyLayer,
        registry::Registry,
        schema::{UnknownKeys, validate},
        settings::config_file::Config,
        source_span::{ConfigError, Problem, SourceSpan},
        spanned_yaml::SpannedYaml,
    },
    regular_file::{self, MAX_FILE_BYTES},
};

/// A validated document, and what was found while loading it.
#[derive(Debug)]
pub(super) struct Loader {
    pub(super) document: SpannedYaml,
    /// The document without positions. References in it are resolved step by step.
    pub(super) value: Value,
    /// The start of relative paths.
    pub(super) directory: PathBuf,
    /// All files that were read.
    pub(super) files: Vec<PathBuf>,
    pub(super) problems: Vec<Problem>,
    pub(super) warnings: Vec<Problem>,
    pub(super) missing_secrets: MissingSecrets,
    /// Files of a stored revision, which are read instead of those on the disk.
    stored: Option<Arc<ConfigFiles>>,
    /// Folders of the bundles whose settings the document has.
    pub(super) layers: Vec<PolicyLayer>,
    /// Texts of the files that were read, but for the config file itself.
    pub(super) texts: ConfigFiles,
    /// Texts of case files, in the order in which guards name them. They are part of the version.
    pub(super) case_texts: Vec<String>,
}

impl Loader {
    /// Validates `value`, which is all or part of `document`.
    pub(super) fn new(
        document: SpannedYaml,
        mut value: Value,
        overrides: &Overrides,
        registry: &Registry,
    ) -> Result<Self, ConfigError> {
        add_upstreams(&mut value, overrides)?;
        let validated = validate::<Config>(&document, value, registry, UnknownKeys::Refused);
        let file = document.file().to_owned();
        let has_file = !file.as_os_str().is_empty();
        Ok(Self {
            document,
            value: validated.value,
            directory: file.parent().unwrap_or(Path::new("")).to_owned(),
            files: has_file.then_some(file).into_iter().collect(),
            problems: validated.problems,
            warnings: validated.warnings,
            missing_secrets: overrides.missing_secrets,
            stored: overrides.stored.clone(),
            layers: overrides.layers.clone(),
            texts: ConfigFiles::default(),
            case_texts: Vec::new(),
        })
    }

    /// Deserializes the value at `pointer`. `None` if there is none, or if the
    /// validation has already reported it.
    pub(super) fn section<T: DeserializeOwned>(&self, pointer: &str) -> Option<T> {
        T::deserialize(self.value.pointer(pointer)?).ok()
    }

    /// Returns the mapping at `pointer` for changing it.
    pub(super) fn mapping_mut(&mut self, pointer: &str) -> Option<&mut Map<String, Value>> {
        self.value.pointer_mut(pointer)?.as_object_mut()
    }

    pub(super) fn problem(&mut self, pointer: &str, message: impl Into<String>) {
        let span = self.document.span(pointer);
        self.problems.push(Problem::at(&span, message));
    }

    pub(super) fn warning(&mut self, pointer: &str, message: impl Into<String>) {
        let span = self.document.span(pointer);
        self.warnings.push(Problem::at(&span, message));
    }

    /// Returns the start of relative paths at a position: the folder of the bundle that has the
    /// setting, else the directory of the config.
    pub(super) fn directory_at(&self, span: &SourceSpan) -> PathBuf {
        let layer = self.layers.iter().find(|layer| layer.contains(span));
        layer
            .map_or(&self.directory, |layer| &layer.directory)
            .clone()
    }

    /// Returns the problem of a file that a bundle names outside of its folder.
    pub(super) fn outside_of_bundle(&self, file: &Path, span: &SourceSpan) -> Option<Problem> {
        let layer = self.layers.iter().find(|layer| layer.contains(span))?;
        let inside = file.strip_prefix(&layer.directory).ok();
        let is_inside = inside.is_some_and(|path| {
            let mut parts = path.components();
            parts.all(|part| matches!(part, Component::Normal(_)))
        });
        let message = format!("`{}` is not in the bundle", file.display());
        (!is_inside).then(|| Problem::at(span, message))
    }

    /// Returns the location of a file that the config names, and adds it to the files
    /// that are watched for changes.
    pub(super) fn file(&mut self, path: &Path) -> PathBuf {
        let file = self.directory.join(path);
        self.files.push(file.clone());
        file
    }

    /// Reads a file of the config, which is not secret: that of the stored revision, if one is
    /// loaded.
    pub(super) fn read_text(&mut self, path: &Path) -> io::Result<String> {
        let text = match &self.stored {
            Some(stored) => {
                let text = stored.get(path, &self.directory);
                let missing = || {
                    io::Error::new(
                        io::ErrorKind::NotFound,
                        "it was not stored or sent with the config",
                    )
                };
                text.ok_or_else(missing)?.to_owned()
            }
            None => regular_file::read_text(path, MAX_FILE_BYTES)?,
        };
        self.texts.insert(path, &self.directory, &text);
        Ok(text)
    }

    /// Returns all problems, if there are any, in the order of files and lines.
    pub(super) fn fail_if_problems(&mut self) -> Result<(), ConfigError> {
        if self.problems.is_empty() {
            return Ok(());
        }
        let mut problems = std::mem::take(&mut self.problems);
        problems.sort_by_key(|problem| {
            let span = problem.span.as_ref()?;
            let file = self.files.iter().position(|file| *file == span.file);
            Some((file, span.line, span.column))
        });
        problems.dedup();
        let files = self.watched_files();
        Err(ConfigError { problems, files })
    }

    /// Deserializes the document, after its problems were checked. An error would be
    /// a difference between the schema and the types.
    pub(super) fn deserialize(&mut self) -> Result<Config, ConfigError> {
        let config = serde_json::from_value(self.value.take());
        config.map_err(|error| Problem::at(&self.document.span(""), error.to_string()).into())
    }
}
