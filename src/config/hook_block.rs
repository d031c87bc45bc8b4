//! Blocks of hooks: in the config itself and in settings.json files. Read one
//! by one, then joined in order.

mod lints;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use self::lints::{doubles, idle};
use super::{
    HookGroup, HookSettings, HookSpec, HookView, Known, Matcher, MissingSecrets, Place, Problem,
    SystemMessages, When,
    raw_hooks::{
        DEFAULT_PROTOCOL, RawGroup, RawHook, RawHookDefaults, RawHooks, RawSettings, RawSwitches,
    },
    schema_validation::{UnknownKeys, check},
    secret,
    spanned_yaml::Tree,
};
use crate::event::EventName;

/// A settings file to read.
#[derive(Debug)]
pub(super) struct HookFile {
    pub(super) path: PathBuf,
    pub(super) protocol: String,
    pub(super) system_messages: SystemMessages,
    /// Where the config names it; `None` if the command line does.
    pub(super) named_at: Option<Place>,
}

/// One block of hooks with the switches around it.
#[derive(Debug)]
pub(super) struct HookBlock {
    pub(super) tree: Tree,
    pub(super) raw: RawHooks,
    /// `hooksConfig`.
    pub(super) switches: RawSwitches,
    /// `tools.enableHooks`.
    pub(super) enable_hooks: Option<bool>,
    pub(super) protocol: String,
    pub(super) system_messages: SystemMessages,
}

impl HookFile {
    /// Reads the file. Warnings come with the block, problems instead of it.
    pub(super) fn read(self, known: &Known) -> Result<(HookBlock, Vec<Problem>), Vec<Problem>> {
        let text = std::fs::read_to_string(&self.path).map_err(|error| {
            vec![Problem {
                place: self.named_at,
                message: format!("`{}` cannot be read: {error}", self.path.display()),
            }]
        })?;
        let tree = Tree::parse(&blank_comments(&text), &self.path).map_err(|it| vec![it])?;
        let checked = check::<RawSettings>(&tree, tree.value(), known, UnknownKeys::Ignored);
        if !checked.problems.is_empty() {
            return Err(checked.problems);
        }
        let raw: RawSettings = serde_json::from_value(checked.value)
            .map_err(|error| vec![Problem::at(&tree.place(""), error.to_string())])?;
        let block = HookBlock {
            tree,
            raw: raw.hooks,
            switches: raw.hooks_config,
            enable_hooks: raw.tools.enable_hooks,
            protocol: self.protocol,
            system_messages: self.system_messages,
        };
        Ok((block, checked.warnings))
    }
}

#[derive(Debug, Clone, Copy)]
enum Inside {
    Code,
    Text,
    LineComment,
    BlockComment,
}

/// JSON with `//` and `/* */` comments as JSON: spaces instead, so that all
/// else keeps its place. Pure.
fn blank_comments(text: &str) -> String {
    let mut blanked = String::with_capacity(text.len());
    let mut inside = Inside::Code;
    let mut last = ' ';
    for char in text.chars() {
        let before = std::mem::replace(&mut last, char);
        let shown = match (inside, before, char) {
            (Inside::Code, '/', '/' | '*') => {
                inside = match char {
                    '/' => Inside::LineComment,
                    _ => Inside::BlockComment,
                };
                last = ' ';
                blanked.pop();
                blanked.push(' ');
                ' '
            }
            (Inside::Code, _, '"') => {
                inside = Inside::Text;
                char
            }
            // What is escaped ends no text and escapes nothing.
            (Inside::Text, '\\', _) => {
                last = ' ';
                char
            }
            (Inside::LineComment, _, '\n') | (Inside::Text, _, '"') => {
                inside = Inside::Code;
                char
            }
            (Inside::BlockComment, '*', '/') => {
                inside = Inside::Code;
                last = ' ';
                ' '
            }
            (Inside::LineComment, _, _) => ' ',
            (Inside::BlockComment, _, _) if char != '\n' => ' ',
            (Inside::Code | Inside::Text | Inside::BlockComment, _, _) => char,
        };
        blanked.push(shown);
    }
    blanked
}

/// The hooks of all blocks, in order.
#[derive(Debug)]
pub(super) struct Gathered<'a> {
    /// What the paths of secrets start from.
    directory: &'a Path,
    missing_secrets: MissingSecrets,
    hooks: BTreeMap<EventName, Vec<HookGroup>>,
    /// Every hook that was written, also those switched off.
    labels: BTreeSet<String>,
    disabled: Vec<(String, Place)>,
    /// The files of secrets.
    files: Vec<PathBuf>,
    problems: Vec<Problem>,
    warnings: Vec<Problem>,
}

/// What blocks come to.
#[derive(Debug)]
pub(super) struct Hooks {
    /// Those that run.
    pub(super) by_event: BTreeMap<EventName, Vec<HookGroup>>,
    /// The files of their secrets.
    pub(super) files: Vec<PathBuf>,
    pub(super) problems: Vec<Problem>,
    pub(super) warnings: Vec<Problem>,
}

impl<'a> Gathered<'a> {
    /// None yet. The paths of their secrets will start from `directory`.
    pub(super) const fn new(directory: &'a Path, missing_secrets: MissingSecrets) -> Self {
        Self {
            directory,
            missing_secrets,
            hooks: BTreeMap::new(),
            labels: BTreeSet::new(),
            disabled: Vec::new(),
            files: Vec::new(),
            problems: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// Adds a block. Its hooks come after those already there.
    pub(super) fn add(&mut self, block: &HookBlock, defaults: &RawHookDefaults) {
        self.add_disabled(block);
        let switched_off = block.switched_off();
        if let Some(place) = &switched_off
            && !block.raw.events.is_empty()
        {
            let message = "the hooks of this file are switched off here";
            self.warnings.push(Problem::at(place, message));
        }
        for (event, groups) in &block.raw.events {
            let groups = groups.iter().enumerate().map(|(index, raw)| {
                let pointer = format!("/hooks/{event}/{index}");
                self.warnings.extend(idle(block, raw, *event, &pointer));
                self.group(block, raw, &pointer, defaults)
            });
            let groups: Vec<HookGroup> = groups.collect();
            let hooks = groups.iter().flat_map(|it| &it.hooks);
            self.labels.extend(hooks.map(|it| it.switch().to_owned()));
            if switched_off.is_none() {
                self.hooks.entry(*event).or_default().extend(groups);
            }
        }
    }

    /// The hooks that run, and what to say of all. A switch of the config
    /// itself, unlike that of a settings file, is for all hooks.
    pub(super) fn finish(mut self, config: &HookBlock) -> Hooks {
        if config.switched_off().is_some() {
            self.hooks.clear();
        }
        for (label, place) in &self.disabled {
            if !self.labels.contains(label) {
                let message = format!("no hook is named `{label}`, so none is disabled");
                self.warnings.push(Problem::at(place, message));
            }
        }
        let is_disabled = |hook: &HookSpec| self.disabled.iter().any(|it| it.0 == hook.switch());
        self.hooks.retain(|_, groups| {
            for group in groups.iter_mut() {
                group.hooks.retain(|hook| !is_disabled(hook));
            }
            groups.retain(|it| !it.hooks.is_empty());
            !groups.is_empty()
        });
        for (event, groups) in &self.hooks {
            self.warnings.extend(doubles(*event, groups));
        }
        Hooks {
            by_event: self.hooks,
            files: self.files,
            problems: self.problems,
            warnings: self.warnings,
        }
    }

    fn add_disabled(&mut self, block: &HookBlock) {
        let lists = [
            ("/hooks/disabled", &block.raw.switches.disabled),
            ("/hooksConfig/disabled", &block.switches.disabled),
        ];
        for (pointer, labels) in lists {
            for (index, label) in labels.iter().enumerate() {
                let place = block.tree.place(&format!("{pointer}/{index}"));
                self.disabled.push((label.clone(), place));
            }
        }
    }

    fn group(
        &mut self,
        block: &HookBlock,
        raw: &RawGroup,
        pointer: &str,
        defaults: &RawHookDefaults,
    ) -> HookGroup {
        let (matcher, warning) = Matcher::parse(&raw.matcher);
        if let Some(warning) = warning {
            let place = block.tree.place(&format!("{pointer}/matcher"));
            self.warnings.push(Problem::at(&place, warning));
        }
        let hooks = raw.hooks.iter().enumerate().map(|(index, raw)| {
            let pointer = format!("{pointer}/hooks/{index}");
            let mut hook = block.hook(raw, &pointer, defaults);
            for name in secret::SETTINGS {
                let place = || block.tree.place(&format!("{pointer}/{name}"));
                self.put_secret(&mut hook, name, place);
            }
            hook
        });
        let hooks = hooks.collect();
        HookGroup {
            matcher,
            sequential: raw.sequential,
            hooks,
        }
    }

    /// Fetches a secret of the hook.
    fn put_secret(&mut self, hook: &mut HookSpec, name: &str, place: impl FnOnce() -> Place) {
        match secret::put(
            &mut hook.settings.0,
            name,
            self.directory,
            self.missing_secrets,
        ) {
            Ok(file) => self.files.extend(file),
            Err(message) => self.problems.push(Problem::at(&place(), message)),
        }
    }
}

impl HookBlock {
    /// The block of the config itself.
    pub(super) fn own(tree: Tree, raw: RawHooks, switches: RawSwitches) -> Self {
        Self {
            tree,
            raw,
            switches,
            enable_hooks: None,
            protocol: DEFAULT_PROTOCOL.to_owned(),
            system_messages: SystemMessages::Hidden,
        }
    }

    /// Where the block is switched off, if it is: one `false` is enough.
    fn switched_off(&self) -> Option<Place> {
        let switches = [
            ("/hooks/enabled", self.raw.switches.enabled),
            ("/hooksConfig/enabled", self.switches.enabled),
            ("/tools/enableHooks", self.enable_hooks),
        ];
        let off = switches.iter().find(|(_, it)| *it == Some(false));
        off.map(|(pointer, _)| self.tree.place(pointer))
    }

    fn hook(&self, raw: &RawHook, pointer: &str, defaults: &RawHookDefaults) -> HookSpec {
        let mut settings = raw.rest.clone();
        let mut set = |name: &str, value: Option<Value>| {
            settings.extend(value.map(|it| (name.to_owned(), it)));
        };
        set("command", raw.command.clone().map(Value::from));
        set("url", raw.url.as_ref().map(|it| it.0.clone().into()));
        set("bearer", raw.bearer.clone());
        set("policy", raw.policy.clone().map(Value::from));
        set("instances", raw.instances.map(|it| it.0.into()));
        set("prewarm", raw.prewarm.map(|it| it.0.into()));
        set("answer", raw.answer.map(|it| json!(it)));
        if !raw.env.is_empty() {
            set("env", Some(json!(raw.env)));
        }
        HookSpec {
            name: raw.name.clone(),
            kind: raw.kind.clone(),
            protocol: self.protocol.clone(),
            timeout: raw.timeout.unwrap_or(defaults.timeout).0,
            on_failure: raw.on_failure.unwrap_or(defaults.on_failure),
            mode: raw.mode,
            sees: if raw.document {
                HookView::Document
            } else {
                HookView::StableForm
            },
            system_messages: self.system_messages,
            when: raw.when.as_ref().map(|text| When {
                text: text.clone(),
                place: self.tree.place(&format!("{pointer}/when")),
            }),
            settings: HookSettings(settings),
            place: self.tree.place(pointer),
        }
    }
}

#[cfg(test)]
mod tests;
