//! `request_limits`: how much may be asked for, at once and per session.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{
    ChunkPosition, Look, Occasion, Policy, PolicyKind, PolicyRequest, ResponsePolicy,
    session_counters::Tally,
};
use crate::{
    config::Size,
    dialect::{DialectError, ResponseDocument},
    event::{EventName, HookOutput},
};

pub(super) const KIND: PolicyKind = PolicyKind::of::<RequestLimits>(
    "request_limits",
    &[EventName::BeforeModel, EventName::AfterModel],
)
.blind("tokens are those that upstream counts; an answer without `usageMetadata` costs none");

/// How much may be asked for, at once and per session.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(
    clippy::struct_field_names,
    reason = "in a config each key must say by itself that it is a maximum"
)]
struct RequestLimits {
    /// The most that `maxOutputTokens` may be; set if the agent sets none.
    #[schemars(range(min = 1))]
    max_output_tokens: Option<u32>,
    /// The most that `temperature` may be; set if the agent sets none.
    #[schemars(range(min = 0.0, max = 2.0))]
    max_temperature: Option<f64>,
    /// The largest body of a request.
    max_input: Option<Size>,
    /// Model calls per session.
    #[schemars(range(min = 1))]
    max_calls: Option<u64>,
    /// Tokens per session, of requests and answers together. The call that goes
    /// over it is the last one.
    #[schemars(range(min = 1))]
    max_tokens: Option<u64>,
}

impl RequestLimits {
    /// The parameters that are too high, or that mean nothing, as they may be.
    fn clamped(&self, call: &PolicyRequest) -> Result<Map<String, Value>, DialectError> {
        let given = call.dialect.parameters(&call.call, &call.document)?;
        let mut clamped = Map::new();
        let mut clamp = |name: &str, least: f64, most: f64, value: Value| {
            let given = given.get(name).and_then(Value::as_f64);
            if !given.is_some_and(|it| (least..=most).contains(&it)) {
                clamped.insert(name.to_owned(), value);
            }
        };
        if let Some(most) = self.max_output_tokens {
            // To some, zero tokens are as many as they like.
            clamp("maxOutputTokens", 1.0, most.into(), most.into());
        }
        if let Some(most) = self.max_temperature {
            clamp("temperature", 0.0, most, most.into());
        }
        Ok(clamped)
    }

    /// Why the session may not go on, if it may not. Counts the call.
    fn exceeded(&self, tally: &Tally) -> Option<String> {
        if let Some(most) = self.max_tokens.filter(|it| tally.tokens() >= *it) {
            return Some(format!("This session has used up its {most} tokens."));
        }
        let most = self.max_calls?;
        let counted = tally.count_call(most);
        (!counted).then(|| format!("This session has used up its {most} model calls."))
    }
}

impl Policy for RequestLimits {
    fn request(
        &self,
        occasion: &Occasion<'_>,
        call: &mut PolicyRequest,
    ) -> Result<HookOutput, DialectError> {
        if let Some(most) = self.max_input.filter(|it| call.bytes() > it.0) {
            let most = most.0;
            let reason = format!("The request is larger than {most} bytes.");
            return Ok(HookOutput::denial(reason));
        }
        if !call.call.operation.generates() {
            return Ok(HookOutput::default());
        }
        if occasion.look == Look::First
            && let Some(reason) = self.exceeded(&occasion.ledger.tally(occasion))
        {
            return Ok(HookOutput::denial(reason));
        }
        let clamped = self.clamped(call)?;
        if !clamped.is_empty() {
            call.write([("config", Value::Object(clamped))])?;
        }
        Ok(HookOutput::default())
    }

    fn answer(&self, occasion: &Occasion<'_>) -> Option<Box<dyn ResponsePolicy>> {
        if self.max_tokens.is_none() || occasion.look == Look::Again {
            return None;
        }
        Some(Box::new(Counting {
            tally: occasion.ledger.tally(occasion),
            tokens: 0,
        }))
    }
}

/// Counts the tokens of one answer.
#[derive(Debug)]
struct Counting {
    tally: Arc<Tally>,
    /// Those of this answer so far; every chunk tells all of them again.
    tokens: u64,
}

impl ResponsePolicy for Counting {
    fn chunk(
        &mut self,
        chunk: &mut ResponseDocument,
        _extent: ChunkPosition,
    ) -> Result<HookOutput, DialectError> {
        let tokens = chunk.total_tokens()?.unwrap_or_default().max(self.tokens);
        self.tally.count_tokens(tokens - self.tokens);
        self.tokens = tokens;
        Ok(HookOutput::default())
    }
}
