//! A request as it was sent: hooks are shown it with each chunk of its answer, so
//! its JSON is written once.

use std::ops::Deref;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};

use super::LlmRequest;

/// A request in the stable form, and its JSON. The default is one that nobody is
/// shown.
#[derive(Debug, Default)]
pub struct SentRequest {
    request: LlmRequest,
    json: Box<RawValue>,
}

impl From<LlmRequest> for SentRequest {
    fn from(request: LlmRequest) -> Self {
        // Texts, numbers and JSON values always become JSON.
        let json = to_raw_value(&request).unwrap_or_default();
        Self { request, json }
    }
}

impl Deref for SentRequest {
    type Target = LlmRequest;

    fn deref(&self) -> &LlmRequest {
        &self.request
    }
}

impl Serialize for SentRequest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.json.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for SentRequest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        LlmRequest::deserialize(deserializer).map(Self::from)
    }
}
