//! `model_allow`: only the listed models are asked, and only they answer.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    ChunkPosition, Occasion, Policy, PolicyKind, PolicyRequest, ResponsePolicy, TextVerdict,
    matchers::Globs,
};
use crate::{
    dialect::{DialectError, ResponseDocument, Words},
    event::{EventName, HookOutput},
};

pub(super) const KIND: PolicyKind = PolicyKind::of::<ModelAllow>(
    "model_allow",
    &[EventName::BeforeModel, EventName::AfterModel],
);

/// Only these models are asked, and only they answer.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ModelAllow {
    /// The models, as globs.
    #[schemars(length(min = 1))]
    models: Globs,
    /// What the agent is told; a sentence that names the model if absent.
    reason: Option<Arc<str>>,
}

impl ModelAllow {
    fn allows(&self, model: &str) -> bool {
        self.models.matches(model)
    }

    fn denial(&self, model: &str) -> HookOutput {
        match &self.reason {
            Some(reason) => HookOutput::denial(&**reason),
            None => HookOutput::denial(format!("The model `{model}` is not allowed here.")),
        }
    }
}

impl Policy for ModelAllow {
    fn request(
        &self,
        _occasion: &Occasion<'_>,
        call: &mut PolicyRequest,
    ) -> Result<HookOutput, DialectError> {
        let model = call.model()?;
        if self.allows(model) {
            return Ok(HookOutput::default());
        }
        Ok(self.denial(model))
    }

    fn answer(&self, occasion: &Occasion<'_>) -> Option<Box<dyn ResponsePolicy>> {
        Some(Box::new(Answering {
            policy: Self {
                models: self.models.clone(),
                reason: self.reason.clone(),
            },
            asked: occasion.model.to_owned(),
            answers: String::new(),
        }))
    }
}

/// Looks at which model answers.
#[derive(Debug)]
struct Answering {
    policy: ModelAllow,
    asked: String,
    /// The last model that answered and may.
    answers: String,
}

impl Answering {
    /// The model that was asked may answer under a name that says more, such as
    /// its version.
    fn expects(&self, model: &str) -> bool {
        let more = model.strip_prefix(self.asked.as_str());
        let is_asked = more.is_some_and(|it| it.is_empty() || it.starts_with('-'));
        (is_asked && self.policy.allows(&self.asked)) || self.policy.allows(model)
    }

    /// The name of a model that may not answer.
    fn refused<'n>(&mut self, named: &'n str) -> Option<&'n str> {
        // Every chunk of an answer names the same.
        if named == self.answers {
            return None;
        }
        let model = named.strip_prefix("models/").unwrap_or(named);
        if !model.is_empty() && !self.expects(model) {
            return Some(model);
        }
        named.clone_into(&mut self.answers);
        None
    }
}

impl ResponsePolicy for Answering {
    fn chunk(
        &mut self,
        chunk: &mut ResponseDocument,
        _extent: ChunkPosition,
    ) -> Result<HookOutput, DialectError> {
        let model = chunk.model()?.unwrap_or_default();
        Ok(match self.refused(&model) {
            Some(model) => self.policy.denial(model),
            None => HookOutput::default(),
        })
    }

    fn words(&mut self, words: &mut Words) -> TextVerdict {
        match self.refused(words.model().unwrap_or_default()) {
            Some(model) => TextVerdict::Said(Box::new(self.policy.denial(model))),
            None => TextVerdict::Silent,
        }
    }
}
