//! `model_swap`: replaces the requested model, by its name, the caller, the session
//! or the size of the request.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    definition::{InspectionPass, Policy, PolicyContext, PolicyKind, PolicyRequest, PolicyResult},
    matchers::Glob,
};
use crate::{
    config::Size,
    event::{EventName, HookOutput},
    model::ModelName,
};

pub(super) const KIND: PolicyKind =
    PolicyKind::new::<ModelSwap>("model_swap", &[EventName::BeforeModel]);

/// Replaces the requested model. The first rule that matches applies; `swap` comes
/// after `rules`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ModelSwap {
    /// Replacements by the name of the requested model.
    #[serde(default)]
    swap: BTreeMap<String, ReplacementModel>,
    /// Replacements by more than the name.
    #[serde(default)]
    rules: Vec<SwapRule>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ModelSwapRule")]
struct SwapRule {
    /// Requested models; all if absent.
    model: Option<Glob>,
    /// Callers, by name or by `caller.key`; all if absent.
    caller: Option<Glob>,
    /// Session ids; all if absent.
    session: Option<Glob>,
    /// Matches only requests with a larger body.
    larger_than: Option<Size>,
    /// Matches only requests with a smaller body.
    smaller_than: Option<Size>,
    /// Model that replaces the requested one.
    to: ReplacementModel,
}

/// The name of a model.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "ModelName", with = "String", extend("pattern" = "^(models/)?[A-Za-z0-9._@:-]+(/[A-Za-z0-9._@:-]+)*$", "errorMessage" = "must be the name of a model"))]
struct ReplacementModel(ModelName);

impl SwapRule {
    fn matches_all(&self) -> bool {
        let globs = [&self.model, &self.caller, &self.session];
        let is_all =
            |glob: &&Option<Glob>| glob.as_ref().is_none_or(|glob| glob.0.glob().glob() == "*");
        let sizes = [self.larger_than, self.smaller_than];
        globs.iter().all(is_all) && sizes.iter().all(Option::is_none)
    }

    /// Returns whether no size is between `larger_than` and `smaller_than`.
    fn matches_none(&self) -> bool {
        let sizes = self.larger_than.zip(self.smaller_than);
        sizes.is_some_and(|(larger, smaller)| smaller.0 <= larger.0.saturating_add(1))
    }

    fn matches(&self, context: &PolicyContext<'_>, request: &PolicyRequest) -> bool {
        let caller = &context.context.caller;
        let accepts = |glob: &Option<Glob>, name: &str| {
            glob.as_ref().is_none_or(|glob| glob.0.is_match(name))
        };
        accepts(&self.model, request.call.model_name())
            && (accepts(&self.caller, &caller.key) || accepts(&self.caller, &caller.name))
            && accepts(&self.session, &context.context.session_id)
            && self.larger_than.is_none_or(|size| request.bytes() > size.0)
            && self
                .smaller_than
                .is_none_or(|size| request.bytes() < size.0)
    }
}

impl Policy for ModelSwap {
    fn lint(&self, _events: &[EventName]) -> Option<String> {
        if self.swap.is_empty() && self.rules.is_empty() {
            return Some("has no effect: `swap` and `rules` are empty".to_owned());
        }
        let mut swaps = self.swap.iter();
        if let Some((model, _)) = swaps.find(|(from, to)| *from == to.0.as_str()) {
            return Some(format!("`swap` replaces `{model}` by itself"));
        }
        if let Some(name) = self.swap.keys().find(|name| name.contains(['*', '?'])) {
            return Some(format!(
                "`{name}` in `swap` cannot be the name of a model: use `rules` for globs"
            ));
        }
        let globs = self.rules.iter().filter_map(|rule| rule.model.as_ref());
        let globs = globs.map(|glob| glob.0.glob().glob());
        let mut names = self.swap.keys().map(String::as_str).chain(globs);
        if let Some(name) = names.find_map(|name| name.strip_prefix("models/")) {
            return Some(format!(
                "`models/{name}` matches no model, because names do not begin with `models/`: use `{name}`"
            ));
        }
        if let Some(index) = self.rules.iter().position(SwapRule::matches_none) {
            let message = "matches no request: `smaller_than` is not above `larger_than`";
            return Some(format!("`rules[{index}]` {message}"));
        }
        let index = self.rules.iter().position(SwapRule::matches_all)?;
        let is_last = index + 1 == self.rules.len() && self.swap.is_empty();
        (!is_last).then(|| {
            format!("`rules[{index}]` matches all requests, so what comes after it never applies")
        })
    }

    fn request(&self, context: &PolicyContext<'_>, request: &mut PolicyRequest) -> PolicyResult {
        // In the second pass a model that a hook requested is kept.
        if context.pass == InspectionPass::First {
            let mut rules = self.rules.iter();
            let rule = rules.find(|rule| rule.matches(context, request));
            let named = self.swap.get(request.call.model_name());
            if let Some(model) = rule.map(|rule| &rule.to).or(named) {
                request.set_field("model", model.0.as_str().into())?;
            }
        }
        Ok(HookOutput::default())
    }
}
