//! Settings of policy bundles: read, joined with those of the config, and locked against those
//! below them.

use std::fs;

use serde_json::Map;

use crate::{
    config::{
        overrides::Overrides,
        policy_layer::{BUNDLE_CONFIG, BUNDLE_SETTINGS, LOWER_SETTINGS, PolicyLayer},
        settings::{config_file::Config, hooks::HookSpec},
        source_span::{ConfigError, Problem, SourceSpan},
        spanned_yaml::SpannedYaml,
    },
    event::EventName,
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
        let text = fs::read_to_string(&file).map_err(|error| {
            Problem::without_span(format!("`{}` cannot be read: {error}", file.display()))
        })?;
        let bundle = SpannedYaml::parse(&text, &file)?;
        let upper = overrides.layers.first().filter(|_| index > 0);
        problems.extend(foreign_settings(&bundle, upper));
        problems.extend(document.append(bundle));
    }
    if problems.is_empty() {
        Ok(())
    } else {
        Err(ConfigError { problems })
    }
}

/// Returns a problem for each setting that a bundle must not have. `upper` is the bundle above
/// it.
fn foreign_settings(bundle: &SpannedYaml, upper: Option<&PolicyLayer>) -> Vec<Problem> {
    let (own, reason) = match upper {
        None => (
            &BUNDLE_SETTINGS[..],
            "belongs to the config of each gateway, not to a bundle".to_owned(),
        ),
        Some(upper) => (
            &LOWER_SETTINGS[..],
            format!(
                "applies to all layers, so that only the bundle `{}` can have it",
                upper.name
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

/// Returns a problem for each switch outside of the upper bundle that disables a hook of it:
/// the `disabled` names with their positions, and the switch for all hooks.
pub(super) fn disabled_upper_hooks<'a>(
    layers: &[PolicyLayer],
    hooks: impl Iterator<Item = &'a HookSpec>,
    disabled: &[(String, SourceSpan)],
    all_disabled_at: Option<&SourceSpan>,
) -> Vec<Problem> {
    let Some(upper) = layers.first() else {
        return Vec::new();
    };
    let mut names = hooks.filter(|hook| upper.contains(&hook.span));
    let names: Vec<&str> = names.by_ref().map(HookSpec::switch).collect();
    let outside = disabled.iter().filter(|(_, span)| !upper.contains(span));
    let named = outside.filter(|(name, _)| names.contains(&name.as_str()));
    let mut problems: Vec<Problem> = named
        .map(|(name, span)| {
            let message = format!(
                "the hook `{name}` of the bundle `{}` cannot be disabled here",
                upper.name
            );
            Problem::at(span, message)
        })
        .collect();
    problems.extend(
        all_disabled_at
            .filter(|span| !upper.contains(span))
            .map(|span| {
                let message = format!(
                    "the hooks of the bundle `{}` cannot be disabled here",
                    upper.name
                );
                Problem::at(span, message)
            }),
    );
    problems
}

/// Returns a problem for each policy and hook outside of the upper bundle that has the name of
/// one in it.
pub(super) fn shadowed_rules(layers: &[PolicyLayer], config: &Config) -> Vec<Problem> {
    let Some(upper) = layers.first() else {
        return Vec::new();
    };
    let policies = config.policies.iter();
    let policies = policies.map(|policy| (policy.label(), &policy.span));
    let groups = config.hooks.values().flatten();
    let enabled = groups.flat_map(|group| &group.hooks);
    let disabled = config.disabled_hooks.iter();
    let disabled = disabled.map(|(_, hook): &(EventName, HookSpec)| hook);
    let hooks = enabled.chain(disabled);
    let hooks = hooks.map(|hook| (hook.label(), &hook.span));
    let (own, others): (Vec<_>, Vec<_>) = policies
        .chain(hooks)
        .partition(|(_, span)| upper.contains(span));
    let shadowed = others.into_iter().filter_map(|(name, span)| {
        let (_, first) = own.iter().find(|(own, _)| *own == name)?;
        let message = format!(
            "`{name}` is the name of a policy or hook of the bundle `{}`, which cannot be replaced: it is at {first}",
            upper.name
        );
        Some(Problem::at(span, message))
    });
    shadowed.collect()
}
