//! `model_allow`: allows only the listed models to be requested and to respond.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    definition::{
        ChunkPosition, Policy, PolicyContext, PolicyKind, PolicyRequest, PolicyResult,
        ResponsePolicy,
    },
    matchers::Globs,
};
use crate::{
    dialect::{self, ResponseDocument},
    event::{EventName, HookOutput},
};

/// Mark in front of a stored prompt in the name of a model: compatible servers take the prompt's
/// model, too.
const PRESET_MARK: &str = "@preset/";

pub(super) const KIND: PolicyKind = PolicyKind::new::<ModelAllow>(
    "model_allow",
    &[EventName::BeforeModel, EventName::AfterModel],
);

/// Allows only the listed models to be requested and to respond.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ModelAllow {
    /// Allowed models, as globs.
    #[schemars(length(min = 1))]
    models: Globs,
    /// Reason of a denial; a sentence that names the model if absent.
    reason: Option<Arc<str>>,
}

impl ModelAllow {
    fn denial(&self, model: &str) -> HookOutput {
        match &self.reason {
            Some(reason) => HookOutput::denial(&**reason),
            None if model.is_empty() => {
                HookOutput::denial("A request without a model is not allowed here.")
            }
            None => HookOutput::denial(format!("The model `{model}` is not allowed here.")),
        }
    }
}

impl Policy for ModelAllow {
    fn lint(&self, _events: &[EventName]) -> Option<String> {
        let mut models = self.models.texts().iter();
        models.find_map(|model| {
            if model.is_empty() || model.contains(char::is_whitespace) {
                return Some(format!("`{model}` in `models` cannot be the name of a model"));
            }
            let name = model.strip_prefix("models/")?;
            Some(format!(
                "`{model}` in `models` matches no model of Google's APIs, whose names do not begin with `models/`: use `{name}`"
            ))
        })
    }

    fn request(&self, _context: &PolicyContext<'_>, request: &mut PolicyRequest) -> PolicyResult {
        dialect::check_model(&request.call, &request.document)?;
        let model = request.call.model_name();
        if !self.models.matches(model) {
            return Ok(self.denial(model));
        }
        let preset = model.find(PRESET_MARK).and_then(|at| model.get(at..));
        let others = dialect::other_models(&request.document)?;
        let mut names = preset.into_iter().chain(others.iter().map(String::as_str));
        let denied = names.find(|name| !self.models.matches(name));
        Ok(denied.map_or_else(HookOutput::default, |name| self.denial(name)))
    }

    fn response(&self, context: &PolicyContext<'_>) -> Option<Box<dyn ResponsePolicy>> {
        Some(Box::new(ResponseModelCheck {
            policy: self.clone(),
            requested: context.model.to_owned(),
        }))
    }
}

/// Checks the model that responds.
#[derive(Debug)]
struct ResponseModelCheck {
    policy: ModelAllow,
    requested: String,
}

impl ResponseModelCheck {
    /// Returns whether a model may respond. The requested model may respond under a
    /// longer name, such as one with its version.
    fn allows(&self, model: &str) -> bool {
        let suffix = model.strip_prefix(self.requested.as_str());
        let is_requested =
            suffix.is_some_and(|suffix| suffix.is_empty() || suffix.starts_with('-'));
        let models = &self.policy.models;
        (is_requested && models.matches(&self.requested)) || models.matches(model)
    }

    /// Returns a denial if the named model may not respond.
    fn check(&self, name: &str) -> Option<HookOutput> {
        let model = name.strip_prefix("models/").unwrap_or(name);
        let is_denied = !model.is_empty() && !self.allows(model);
        is_denied.then(|| self.policy.denial(model))
    }
}

impl ResponsePolicy for ResponseModelCheck {
    fn chunk(&mut self, chunk: &mut ResponseDocument, _position: ChunkPosition) -> PolicyResult {
        let model = chunk.model()?;
        let denial = self.check(model.as_deref().unwrap_or_default());
        Ok(denial.unwrap_or_default())
    }
}
