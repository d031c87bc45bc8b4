//! Settings of policy bundles: read, joined with those of the config, and locked against those
//! below them.

use std::path::PathBuf;

use serde_json::{Map, Value};

use super::loader::Loader;
use crate::{
    config::{
        overrides::Overrides,
        policy_layer::{
            BUNDLE_CONFIG, BUNDLE_SETTINGS, BundleCapability, PolicyLayer, UNLOCKED_SETTINGS,
        },
        settings::{
            config_file::Config,
            hooks::{BUILTIN, HookSpec},
        },
        source_span::{ConfigError, Problem, SourceSpan},
        spanned_yaml::SpannedYaml,
    },
    regular_file::{self, MAX_FILE_BYTES},
};

/// Appends the settings of bundles to a config.
///
/// # Errors
///
/// Returns each setting that a bundle must not have, and those that are in two places.
pub(super) fn add_layers(
    document: &mut SpannedYaml,
    overrides: &Overrides,
) -> Result<(), ConfigError> {
    let mut problems = Vec::new();
    for (index, layer) in overrides.layers.iter().enumerate() {
        let file = layer.directory.join(BUNDLE_CONFIG);
        let unchanged = layer
            .bundle
            .as_ref()
            .map_or(Ok(()), |bundle| bundle.check());
        unchanged.map_err(|error| {
            let message = format!("the files of bundle `{}`: {error}", layer.name);
            Problem::without_span(message)
        })?;
        let text = regular_file::read_text(&file, MAX_FILE_BYTES).map_err(|error| {
            Problem::without_span(format!("`{}` cannot be read: {error}", file.display()))
        })?;
        let bundle = SpannedYaml::parse(&text, &file)?;
        let locked = overrides.layers.first().filter(|_| index > 0);
        problems.extend(foreign_settings(&bundle, locked));
        problems.extend(document.append(bundle));
    }
    ConfigError::check(problems)
}

impl Loader {
    /// Returns the files that are watched. Those of bundles never change: another bundle has
    /// another folder.
    pub(super) fn watched_files(&self) -> Vec<PathBuf> {
        let is_watched = |file: &&PathBuf| {
            let mut bundles = self.layers.iter().filter(|layer| layer.bundle.is_some());
            !bundles.any(|layer| file.starts_with(&layer.directory))
        };
        self.files.iter().filter(is_watched).cloned().collect()
    }

    /// Checks the policies and hooks of bundles.
    ///
    /// # Errors
    ///
    /// Returns those that replace one of the first bundle, and hooks that a bundle must not have.
    pub(super) fn check_layers(&mut self, config: &Config) -> Result<(), ConfigError> {
        self.problems.extend(shadowed_rules(&self.layers, config));
        self.problems.extend(refused_hooks(&self.layers, config));
        self.fail_if_problems()
    }
}

/// Returns a problem for each setting that a bundle must not have. `locked` is the one above it.
fn foreign_settings(bundle: &SpannedYaml, locked: Option<&PolicyLayer>) -> Vec<Problem> {
    let (own, reason) = match locked {
        None => (
            &BUNDLE_SETTINGS[..],
            "belongs to the config of each gateway, not to a bundle".to_owned(),
        ),
        Some(locked) => (
            &UNLOCKED_SETTINGS[..],
            format!(
                "applies to all layers, so that only the bundle `{}` can have it",
                locked.name
            ),
        ),
    };
    let value = bundle.value();
    let keys = value.as_object().into_iter().flat_map(Map::keys);
    let foreign = keys.filter(|key| !own.contains(&key.as_str()));
    let problems = foreign.map(|key| {
        let span = bundle.key_span(&format!("/{key}"));
        Problem::at(&span, format!("`{key}` {reason}"))
    });
    problems.collect()
}

/// Returns a problem for each setting of bundles that the config with their `source` has.
pub(super) fn local_bundle_settings(document: &SpannedYaml, value: &Value) -> Vec<Problem> {
    let keys = value.as_object().into_iter().flat_map(Map::keys);
    let keys = keys.filter(|key| BUNDLE_SETTINGS.contains(&key.as_str()));
    let spans = keys.map(|key| (key, document.key_span(&format!("/{key}"))));
    let local = spans.filter(|(_, span)| span.file == document.file());
    let problems = local.map(|(key, span)| {
        let message = format!("`{key}` belongs to the bundle of `source`, not to this file");
        Problem::at(&span, message)
    });
    problems.collect()
}

/// Returns a problem for each switch outside of the first bundle that disables a hook of it:
/// the `disabled` names with their positions, and the switch for all hooks.
pub(super) fn disabled_locked_hooks<'a>(
    layers: &[PolicyLayer],
    hooks: impl Iterator<Item = &'a HookSpec>,
    disabled: &[(String, SourceSpan)],
    all_disabled_at: Option<&SourceSpan>,
) -> Vec<Problem> {
    let Some(first) = layers.first() else {
        return Vec::new();
    };
    let first_hooks = hooks.filter(|hook| first.contains(&hook.span));
    let switches: Vec<&str> = first_hooks.map(HookSpec::switch).collect();
    let outside = disabled.iter().filter(|(_, span)| !first.contains(span));
    let named = outside.filter(|(name, _)| switches.contains(&name.as_str()));
    let mut problems: Vec<Problem> = named
        .map(|(name, span)| {
            let message = format!(
                "the hook `{name}` of the bundle `{}` cannot be disabled here",
                first.name
            );
            Problem::at(span, message)
        })
        .collect();
    problems.extend(
        all_disabled_at
            .filter(|span| !first.contains(span))
            .map(|span| {
                let message = format!(
                    "the hooks of the bundle `{}` cannot be disabled here",
                    first.name
                );
                Problem::at(span, message)
            }),
    );
    problems
}

/// Returns the reason why the bundle with a setting at a position must not use a capability.
pub(super) fn capability_refusal(
    layers: &[PolicyLayer],
    span: &SourceSpan,
    capability: BundleCapability,
) -> Option<String> {
    let layer = layers.iter().find(|layer| layer.contains(span))?;
    layer.refusal(capability)
}

/// Returns a problem for each hook that its bundle must not have, also if it is disabled: another
/// bundle may enable it.
fn refused_hooks(layers: &[PolicyLayer], config: &Config) -> Vec<Problem> {
    let disabled = config.disabled_hooks.iter().map(|(_, hook)| hook);
    let hooks = config.enabled_hooks().chain(disabled);
    let problems = hooks.filter_map(|hook| {
        let (capability, action) = match hook.kind.as_str() {
            BUILTIN => return None,
            "command" | "worker" => (BundleCapability::Commands, "runs a command"),
            _ => (BundleCapability::Http, "calls a server"),
        };
        let reason = capability_refusal(layers, &hook.span, capability)?;
        let message = format!("hook `{}` {action}, but {reason}", hook.label());
        Some(Problem::at(&hook.span, message))
    });
    problems.collect()
}

/// Returns a problem for each policy and hook outside of the first bundle that has the name of
/// one in it. One without a name replaces nothing.
fn shadowed_rules(layers: &[PolicyLayer], config: &Config) -> Vec<Problem> {
    let Some(first) = layers.first() else {
        return Vec::new();
    };
    let policies = config.policies.iter();
    let policies = policies.map(|policy| (policy.name.as_ref(), policy.label(), &policy.span));
    let disabled = config.disabled_hooks.iter().map(|(_, hook)| hook);
    let hooks = config.enabled_hooks().chain(disabled);
    let hooks = hooks.map(|hook| (hook.name.as_ref(), hook.label(), &hook.span));
    let (own, others): (Vec<_>, Vec<_>) = policies
        .chain(hooks)
        .partition(|(_, _, span)| first.contains(span));
    let shadowed = others.into_iter().filter_map(|(name, _, span)| {
        let name = name?;
        let (_, _, replaced) = own.iter().find(|(_, label, _)| label == name)?;
        let message = format!(
            "`{name}` is the name of a policy or hook of the bundle `{}`, which cannot be replaced: it is at {replaced}",
            first.name
        );
        Some(Problem::at(span, message))
    });
    shadowed.collect()
}
