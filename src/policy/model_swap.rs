//! `model_swap`: another model is asked instead, by name, caller, session or
//! size.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use super::{Look, Occasion, Policy, PolicyKind, PolicyRequest, matchers::Glob};
use crate::{
    config::Size,
    dialect::DialectError,
    event::{EventName, HookOutput},
    model::ModelName,
};

pub(super) const KIND: PolicyKind =
    PolicyKind::of::<ModelSwap>("model_swap", &[EventName::BeforeModel]);

/// Another model is asked instead. The first rule that fits counts; `swap` comes
/// after `rules`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ModelSwap {
    /// Models by the names that agents ask for.
    #[serde(default)]
    swap: BTreeMap<String, ModelField>,
    /// Swaps that look at more than the name.
    #[serde(default)]
    rules: Vec<Rule>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ModelSwapRule")]
struct Rule {
    /// Models asked for; all if absent.
    model: Option<Glob>,
    /// Callers, by name or by `caller.key`; all if absent.
    caller: Option<Glob>,
    /// Sessions; all if absent.
    session: Option<Glob>,
    /// Only requests with a larger body.
    larger_than: Option<Size>,
    /// Only requests with a smaller body.
    smaller_than: Option<Size>,
    /// The model to ask instead.
    to: ModelField,
}

/// The name of a model.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "ModelName", with = "String", extend("pattern" = "^(models/)?[A-Za-z0-9._@-]{1,128}$", "errorMessage" = "must be the name of a model"))]
struct ModelField(ModelName);

impl Rule {
    fn fits(&self, occasion: &Occasion<'_>, call: &PolicyRequest) -> bool {
        let context = occasion.context;
        let by_name = |glob: &Option<Glob>, name: &str| match glob {
            Some(glob) => glob.matches(name),
            None => true,
        };
        by_name(&self.model, call.call.model_name())
            && (by_name(&self.caller, &context.caller.key)
                || by_name(&self.caller, &context.caller.name))
            && by_name(&self.session, &context.session_id)
            && self.larger_than.is_none_or(|it| call.bytes() > it.0)
            && self.smaller_than.is_none_or(|it| call.bytes() < it.0)
    }
}

impl Policy for ModelSwap {
    fn request(
        &self,
        occasion: &Occasion<'_>,
        call: &mut PolicyRequest,
    ) -> Result<HookOutput, DialectError> {
        // Of two swaps in a row a hook's is the last one.
        if occasion.look == Look::First {
            let rule = self.rules.iter().find(|it| it.fits(occasion, call));
            let named = self.swap.get(call.call.model_name());
            if let Some(model) = rule.map(|it| &it.to).or(named) {
                call.set_model(&model.0)?;
            }
        }
        Ok(HookOutput::default())
    }
}
