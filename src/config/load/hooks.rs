//! Hooks of the config and of settings files: read one by one, then merged.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::{
    foreign_settings,
    layers::disabled_locked_hooks,
    lints::{duplicate_hooks, empty_names, has_empty_name, no_hooks, unused_settings},
    loader::Loader,
    pointers::{fill_in, matching},
    settings_json::blank_comments,
};
use crate::{
    config::{
        registry::Registry,
        schema::{UnknownKeys, validate},
        settings::{
            config_file::Config,
            hooks::{DEFAULT_PROTOCOL, HookFile, HookGroup, HookSpec, SettingsFile},
            system_messages::SystemMessages,
        },
        source_span::{Problem, SourceSpan},
        spanned_yaml::{SpannedYaml, span_to_value},
    },
    event::{AgentScope, EventName},
    protocol::{self, Protocol},
};

/// The hooks of a settings file or of the config itself.
#[derive(Debug)]
pub(super) struct HookBlock {
    pub(super) document: SpannedYaml,
    settings: SettingsFile,
    warnings: Vec<Problem>,
}

impl Loader {
    /// Reads the hooks of all settings files, those that the config names before those
    /// of the command line, and last those of the config itself.
    pub(super) fn hook_blocks(&mut self, more: &[PathBuf], registry: &Registry) -> Vec<HookBlock> {
        let mut defaults = Map::from_iter([
            ("on_failure".to_owned(), json!("open")),
            ("timeout".to_owned(), json!(60_000)),
            ("context".to_owned(), json!(false)),
            ("protocol".to_owned(), json!(DEFAULT_PROTOCOL)),
            ("system_messages".to_owned(), json!(SystemMessages::Hidden)),
        ]);
        let written = self.value.get("hook_defaults").and_then(Value::as_object);
        defaults.extend(written.cloned().unwrap_or_default());

        let mut blocks = Vec::new();
        for (file, span) in self.hook_files(more) {
            match self.settings_file(&file, span, &defaults, registry) {
                Ok(block) => blocks.push(block),
                Err(problems) => self.problems.extend(problems),
            }
        }
        let (document, value) = (self.document.clone(), self.value.clone());
        // Without the schema's problems, which are reported, this cannot fail.
        blocks.extend(HookBlock::new(document, value, &defaults));
        blocks
    }

    /// Returns the settings files to read, and the positions that name them in the config.
    fn hook_files(&mut self, more: &[PathBuf]) -> Vec<(HookFile, Option<SourceSpan>)> {
        let mut files = Vec::new();
        for pointer in matching(&self.value, "/hook_files/*") {
            if let Some(mut file) = self.section::<HookFile>(&pointer) {
                let span = self.document.span(&format!("{pointer}/path"));
                file.path = self.directory_at(&span).join(file.path);
                match self.outside_of_bundle(&file.path, &span) {
                    Some(problem) => self.problems.push(problem),
                    None => files.push((file, Some(span))),
                }
            }
        }
        files.extend(more.iter().map(|path| {
            let file = HookFile {
                path: path.clone(),
                protocol: None,
                system_messages: SystemMessages::Hidden,
            };
            (file, None)
        }));
        files
    }

    fn settings_file(
        &mut self,
        file: &HookFile,
        span: Option<SourceSpan>,
        defaults: &Map<String, Value>,
        registry: &Registry,
    ) -> Result<HookBlock, Vec<Problem>> {
        let document = self.read_settings(&file.path, span);
        let document = document.map_err(|problem| vec![problem])?;
        let is_protocol = |name: &String| protocol::find(name).is_some();
        if !file.protocol.as_ref().is_none_or(is_protocol) {
            // The validation of the config reports it.
            return Err(Vec::new());
        }
        let mut defaults = defaults.clone();
        let (document, value, scopes) = self.translate_settings(file, document, &mut defaults);
        let validated = validate::<SettingsFile>(&document, value, registry, UnknownKeys::Ignored);
        let mut value = validated.value;
        self.resolve_secrets(&mut value, &document);
        self.annotate_proofs(&document, &mut value);
        if !validated.problems.is_empty() {
            return Err(validated.problems);
        }
        self.warnings.extend(validated.warnings);
        set_agents(&mut value, scopes);
        defaults.insert("system_messages".to_owned(), json!(file.system_messages));
        let start = document.span("");
        let block = HookBlock::new(document, value, &defaults)
            .map_err(|error| vec![Problem::at(&start, error.to_string())])?;
        if block.is_without_effect() {
            self.warnings.push(no_hooks(&block.document));
        }
        Ok(block)
    }

    fn read_settings(
        &mut self,
        path: &Path,
        span: Option<SourceSpan>,
    ) -> Result<SpannedYaml, Problem> {
        if self.files.iter().any(|file| file == path) {
            let message = format!("`{}` is named twice", path.display());
            return Err(Problem { span, message });
        }
        self.files.push(path.to_owned());
        let text = self.read_text(path).map_err(|error| {
            let message = format!("`{}` cannot be read: {error}", path.display());
            Problem { span, message }
        })?;
        let document = SpannedYaml::parse(&blank_comments(&text), path)?;
        if document.is_empty() {
            // Perhaps it is being written: its guards must not go away.
            let start = SourceSpan {
                file: path.to_owned(),
                line: 1,
                column: 1,
            };
            return Err(Problem::at(&start, "the settings file is empty"));
        }
        Ok(document)
    }

    /// Translates a settings file of another family. Sets the default protocol of its
    /// hooks.
    fn translate_settings(
        &mut self,
        file: &HookFile,
        mut document: SpannedYaml,
        defaults: &mut Map<String, Value>,
    ) -> (SpannedYaml, Value, Vec<(String, AgentScope)>) {
        let value = document.value();
        let protocol = match &file.protocol {
            Some(name) => protocol::find(name),
            None => foreign_settings::detect(&file.path, &value),
        };
        let name = protocol.map_or(DEFAULT_PROTOCOL, Protocol::name);
        defaults.insert("protocol".to_owned(), json!(name));
        let Some(format) = protocol.and_then(Protocol::settings_format) else {
            return (document, value, Vec::new());
        };
        let translation = foreign_settings::translate(&document, name, format);
        document.set_moves(translation.moves);
        self.problems.extend(translation.problems);
        self.warnings.extend(translation.warnings);
        (document, translation.value, translation.scopes)
    }

    /// Merges blocks in order into the hooks of the config. The switches of the config itself,
    /// which is the last block, apply to all blocks. Names that settings files disable apply to
    /// the hooks of settings files: agents write them there for their own users.
    pub(super) fn merge_hooks(&mut self, mut files: Vec<HookBlock>, config: &mut Config) {
        let Some(own) = files.pop() else {
            return;
        };
        let by_files: Vec<_> = files.iter().flat_map(HookBlock::disabled_hooks).collect();
        let by_config: Vec<_> = own.disabled_hooks().collect();
        let all_disabled = own.disabled_at();
        let all_disabled = all_disabled.as_ref();
        let hooks = files.iter().chain([&own]).flat_map(HookBlock::hooks);
        let disabled = [by_files.as_slice(), by_config.as_slice()].concat();
        let problems = disabled_locked_hooks(&self.layers, hooks, &disabled, all_disabled);
        self.problems.extend(problems);
        let unused = unused_switches(&files, &own);
        for file in files {
            self.add_hooks(file, all_disabled, config);
        }
        self.disable_hooks(&by_files, config);
        self.add_hooks(own, all_disabled, config);
        self.warnings.extend(unused);
        self.disable_hooks(&by_config, config);
        for (event, groups) in &config.hooks {
            self.warnings
                .extend(duplicate_hooks(*event, groups, &self.layers));
        }
    }

    /// Adds a block, which it or the config may disable as a whole.
    fn add_hooks(
        &mut self,
        block: HookBlock,
        all_disabled_at: Option<&SourceSpan>,
        config: &mut Config,
    ) {
        let disabled_at = block.disabled_at();
        let events = block.settings.hooks.events;
        if let Some(span) = &disabled_at
            && !events.is_empty()
        {
            let message = "the hooks of this file are disabled here";
            self.warnings.push(Problem::at(span, message));
        }
        self.warnings.extend(block.warnings);
        for (event, groups) in events {
            if let Some(span) = disabled_at.as_ref().or(all_disabled_at) {
                let problems = disabled_guards(event, &groups, |_| Some(span));
                self.problems.extend(problems);
                let specs = groups.into_iter().flat_map(|group| group.hooks);
                let disabled = specs.map(|spec| (event, spec));
                config.disabled_hooks.extend(disabled);
            } else {
                config.hooks.entry(event).or_default().extend(groups);
            }
        }
    }

    /// Removes the hooks that are disabled by name.
    fn disable_hooks(&mut self, names: &[(String, SourceSpan)], config: &mut Config) {
        let switch = |hook: &HookSpec| {
            let switch = names.iter().find(|(name, _)| name == hook.switch());
            switch.map(|(_, span)| span)
        };
        config.hooks.retain(|event, groups| {
            let problems = disabled_guards(*event, groups, switch);
            self.problems.extend(problems);
            for group in groups.iter_mut() {
                let removed = group.hooks.extract_if(.., |hook| switch(hook).is_some());
                let disabled = removed.map(|spec| (*event, spec));
                config.disabled_hooks.extend(disabled);
            }
            groups.retain(|group| !group.hooks.is_empty());
            !groups.is_empty()
        });
    }

    /// Completes the policies for deserialization.
    pub(super) fn annotate_policies(&mut self) {
        let names = empty_names(&self.document, &self.value, "/policies/*");
        self.warnings.extend(names);
        for pointer in matching(&self.value, "/policies/*") {
            annotate(&self.document, &mut self.value, &pointer);
        }
    }
}

impl HookBlock {
    fn new(
        document: SpannedYaml,
        mut value: Value,
        defaults: &Map<String, Value>,
    ) -> Result<Self, serde_json::Error> {
        let mut warnings = unused_settings(&document, &value);
        warnings.extend(empty_names(&document, &value, "/hooks/*/*/hooks/*"));
        for pointer in matching(&value, "/hooks/*/*/hooks/*") {
            if let Some(hook) = annotate(&document, &mut value, &pointer) {
                fill_in(hook, defaults);
            }
        }
        Ok(Self {
            document,
            settings: serde_json::from_value(value)?,
            warnings,
        })
    }

    fn hooks(&self) -> impl Iterator<Item = &HookSpec> {
        let groups = self.settings.hooks.events.values().flatten();
        groups.flat_map(|group| &group.hooks)
    }

    /// Returns whether the block has no hook and disables none.
    fn is_without_effect(&self) -> bool {
        self.hooks().next().is_none()
            && self.disabled_at().is_none()
            && self.disabled_hooks().next().is_none()
    }

    /// Returns the position of the first switch that disables the block.
    fn disabled_at(&self) -> Option<SourceSpan> {
        let switches = [
            ("/hooks/enabled", self.settings.hooks.switches.enabled),
            ("/hooksConfig/enabled", self.settings.hooks_config.enabled),
            ("/tools/enableHooks", self.settings.tools.enable_hooks),
        ];
        let off = switches.iter().find(|(_, enabled)| *enabled == Some(false));
        off.map(|(pointer, _)| self.document.span(pointer))
    }

    /// Returns the names of disabled hooks, with their positions.
    fn disabled_hooks(&self) -> impl Iterator<Item = (String, SourceSpan)> {
        let lists = [
            ("/hooks/disabled", &self.settings.hooks.switches.disabled),
            (
                "/hooksConfig/disabled",
                &self.settings.hooks_config.disabled,
            ),
        ];
        lists.into_iter().flat_map(move |(pointer, names)| {
            names.iter().enumerate().map(move |(index, name)| {
                let span = self.document.span(&format!("{pointer}/{index}"));
                (name.clone(), span)
            })
        })
    }
}

/// Returns a warning for each name that disables no hook.
fn unused_switches(files: &[HookBlock], own: &HookBlock) -> Vec<Problem> {
    let has = |block: &HookBlock, name: &str| block.hooks().any(|hook| hook.switch() == name);
    let is_in_files = |name: &str| files.iter().any(|file| has(file, name));
    let by_files = files.iter().flat_map(HookBlock::disabled_hooks);
    let by_files = by_files.filter(|(name, _)| !is_in_files(name));
    let by_config = own.disabled_hooks();
    let by_config = by_config.filter(|(name, _)| !is_in_files(name) && !has(own, name));
    let warnings = by_files.chain(by_config).map(|(name, span)| {
        let message = if has(own, &name) {
            format!("hook `{name}` of the config cannot be disabled by a settings file")
        } else {
            format!("no hook is named `{name}`, so none is disabled")
        };
        Problem::at(&span, message)
    });
    warnings.collect()
}

/// Sets the agents on whose calls the hooks of each group run.
fn set_agents(value: &mut Value, scopes: Vec<(String, AgentScope)>) {
    for (group, scope) in scopes {
        for pointer in matching(value, &format!("{group}/hooks/*")) {
            if let Some(hook) = value.pointer_mut(&pointer).and_then(Value::as_object_mut) {
                hook.insert("agents".to_owned(), json!(scope));
            }
        }
    }
}

/// Adds to a hook or policy what its type has and an operator does not write.
fn annotate<'a>(
    document: &SpannedYaml,
    value: &'a mut Value,
    pointer: &str,
) -> Option<&'a mut Map<String, Value>> {
    let fields = value.pointer_mut(pointer)?.as_object_mut()?;
    fields.shift_remove("description");
    if has_empty_name(fields) {
        fields.shift_remove("name");
    }
    fields.insert("span".to_owned(), span_to_value(&document.span(pointer)));
    if let Some(text) = fields.get("when").cloned() {
        let span = document.span(&format!("{pointer}/when"));
        let when = json!({ "text": text, "span": span_to_value(&span) });
        fields.insert("when".to_owned(), when);
    }
    Some(fields)
}

/// The problems of disabled hooks that have cases to prove them. `switch` returns the
/// position at which a hook is disabled.
fn disabled_guards<'a>(
    event: EventName,
    groups: &[HookGroup],
    switch: impl Fn(&HookSpec) -> Option<&'a SourceSpan>,
) -> Vec<Problem> {
    let hooks = groups.iter().flat_map(|group| &group.hooks);
    let problems = hooks.filter_map(|hook| {
        let (case, switch) = (hook.proof.first_span()?, switch(hook)?);
        let label = hook.label();
        let message =
            format!("hook `{label}` on {event}: has a proof, but is disabled at {switch}");
        Some(Problem::at(case, message))
    });
    problems.collect()
}
