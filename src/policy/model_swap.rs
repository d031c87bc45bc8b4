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
    fn request(&self, context: &PolicyContext<'_>, request: &mut PolicyRequest) -> PolicyResult {
        // In the second pass a model that a hook requested is kept.
        if context.pass == InspectionPass::First {
            let rule = self
                .rules
                .iter()
                .find(|rule| rule.matches(context, request));
            let named = self.swap.get(request.call.model_name());
            if let Some(model) = rule.map(|rule| &rule.to).or(named) {
                request.set_field("model", model.0.as_str().into())?;
            }
        }
        Ok(HookOutput::default())
    }
}
