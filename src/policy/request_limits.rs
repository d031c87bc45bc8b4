//! `request_limits`: limits on requests, and on the usage of a session.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{
    definition::{
        ChunkPosition, InspectionPass, Policy, PolicyContext, PolicyKind, PolicyRequest,
        PolicyResult, ResponsePolicy,
    },
    session_counters::SessionUsage,
};
use crate::{
    config::Size,
    dialect::{self, DialectError, ResponseDocument},
    event::{EventName, HookOutput},
    model::CallSize,
};

pub(super) const KIND: PolicyKind = PolicyKind::new::<RequestLimits>(
    "request_limits",
    &[EventName::BeforeModel, EventName::AfterModel],
)
.with_unseen(
    "tokens are those that upstream counts; a response without a count costs an estimate by its size and that of its request",
);

/// Limits on requests, and on the usage of a session.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(
    clippy::struct_field_names,
    reason = "a key of the config must name the maximum by itself"
)]
struct RequestLimits {
    /// Maximum of `maxOutputTokens`; set if the request has none.
    #[schemars(range(min = 1))]
    max_output_tokens: Option<u32>,
    /// Maximum of `temperature`; set if the request has none and the maximum is below 1.
    #[schemars(range(min = 0.0, max = 2.0))]
    max_temperature: Option<f64>,
    /// Maximum size of the request's body.
    max_input: Option<Size>,
    /// Maximum number of model calls per session.
    #[schemars(range(min = 1))]
    max_calls: Option<u64>,
    /// Maximum number of tokens per session, of requests and responses together.
    /// The call that exceeds it is the last one.
    #[schemars(range(min = 1))]
    max_tokens: Option<u64>,
}

impl RequestLimits {
    /// Returns corrected values for parameters that are absent or out of range.
    fn clamped_parameters(
        &self,
        request: &PolicyRequest,
    ) -> Result<Map<String, Value>, DialectError> {
        let parameters = dialect::generation_parameters(&request.call, &request.document)?;
        let mut clamped = Map::new();
        let number = |value: &Value| match value {
            // Google's APIs accept numbers in strings.
            Value::String(text) => text.parse().ok(),
            other => other.as_f64(),
        };
        let mut clamp = |name: &str, min: f64, max: f64, value: Value| {
            let given = parameters.get(name).and_then(number);
            if !given.is_some_and(|given: f64| (min..=max).contains(&given)) {
                clamped.insert(name.to_owned(), value);
            }
        };
        if let Some(max) = self.max_output_tokens {
            // Some APIs read zero as unlimited.
            clamp("maxOutputTokens", 1.0, max.into(), max.into());
        }
        // The default of models is 1 at most, and the range of some APIs ends there.
        let is_default = parameters.get("temperature").is_none_or(Value::is_null);
        if let Some(max) = self.max_temperature.filter(|max| !is_default || *max < 1.0) {
            clamp("temperature", 0.0, max, max.into());
        }
        Ok(clamped)
    }

    /// Counts a call, or returns the reason why the session has reached a limit.
    fn check_usage(&self, usage: &SessionUsage) -> Result<(), String> {
        if let Some(max) = self.max_tokens.filter(|max| usage.tokens() >= *max) {
            return Err(format!("This session has used up its {max} tokens."));
        }
        match self.max_calls {
            Some(max) if !usage.try_count_call(max) => {
                Err(format!("This session has used up its {max} model calls."))
            }
            _ => Ok(()),
        }
    }
}

impl Policy for RequestLimits {
    fn lint(&self, events: &[EventName]) -> Option<String> {
        let is_empty = self.max_output_tokens.is_none()
            && self.max_temperature.is_none()
            && self.max_input.is_none()
            && self.max_calls.is_none()
            && self.max_tokens.is_none();
        let runs_on = |event: EventName| events.contains(&event);
        let problem = if is_empty {
            "has no effect: no limit is set"
        } else if !runs_on(EventName::BeforeModel) {
            "has no effect: limits are checked on BeforeModel"
        } else if self.max_tokens.is_some() && !runs_on(EventName::AfterModel) {
            "`max_tokens` has no effect: tokens are counted on AfterModel"
        } else {
            return None;
        };
        Some(problem.to_owned())
    }

    fn request(&self, context: &PolicyContext<'_>, request: &mut PolicyRequest) -> PolicyResult {
        if let Some(Size(max)) = self.max_input.filter(|max| request.bytes() > max.0) {
            let reason = format!("The request is larger than {max} bytes.");
            return Ok(HookOutput::denial(reason));
        }
        if !request.call.operation.generates() {
            return Ok(HookOutput::default());
        }
        if context.pass != InspectionPass::Second {
            let usage = context.session_usage();
            usage.begin_reported_response();
            if let Err(reason) = self.check_usage(&usage) {
                return Ok(HookOutput::denial(reason));
            }
        }
        let clamped = self.clamped_parameters(request)?;
        if !clamped.is_empty() {
            request.set_field("config", Value::Object(clamped))?;
        }
        Ok(HookOutput::default())
    }

    fn response(&self, context: &PolicyContext<'_>) -> Option<Box<dyn ResponsePolicy>> {
        if self.max_tokens.is_none() || context.pass == InspectionPass::Second {
            return None;
        }
        Some(Box::new(TokenCounter {
            usage: context.session_usage(),
            tokens: 0,
            size: context.request.map(|(call, document)| CallSize {
                request_bytes: call.body_bytes(document) as u64,
                ..CallSize::default()
            }),
        }))
    }
}

/// Counts the tokens of one response.
#[derive(Debug)]
struct TokenCounter {
    usage: Arc<SessionUsage>,
    /// Tokens of this response so far. Each chunk carries the total.
    tokens: u64,
    /// Size of the call, until its tokens are estimated. A reported chunk has none: another one
    /// may have the count, and is not known to belong to the same response.
    size: Option<CallSize>,
}

impl TokenCounter {
    /// Counts the estimate for a response that has reported no tokens.
    fn count_estimate(&mut self) {
        if let Some(size) = self.size.take()
            && self.tokens == 0
            && size.response_bytes > 0
        {
            self.usage.count_tokens(size.estimated_tokens());
        }
    }
}

impl ResponsePolicy for TokenCounter {
    fn chunk(&mut self, chunk: &mut ResponseDocument, position: ChunkPosition) -> PolicyResult {
        let total = chunk.total_tokens()?.unwrap_or_default();
        let Some(size) = &mut self.size else {
            self.usage.count_reported_tokens(total);
            return Ok(HookOutput::default());
        };
        let tokens = total.max(self.tokens);
        self.usage.count_tokens(tokens - self.tokens);
        self.tokens = tokens;
        size.response_bytes += chunk.wire_len() as u64;
        if position == ChunkPosition::Chunk || size.events > 0 {
            let events = chunk.original_events().map_or(1, <[_]>::len);
            size.events += events as u64;
        }
        if position == ChunkPosition::Last {
            self.count_estimate();
        }
        Ok(HookOutput::default())
    }

    fn end(&mut self) -> Result<Option<(ResponseDocument, HookOutput)>, DialectError> {
        self.count_estimate();
        Ok(None)
    }
}

/// An abandoned response is charged, too.
impl Drop for TokenCounter {
    fn drop(&mut self) {
        self.count_estimate();
    }
}
