//! A request with its JSON serialized once. `AfterModel` hooks are shown the
//! request with every chunk of the response.

use std::ops::Deref;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};

use super::request::LlmRequest;

/// A request in the stable form and its JSON. The default serializes as `null`.
#[derive(Debug, Default)]
pub struct CachedRequest {
    request: LlmRequest,
    json: Box<RawValue>,
}

impl From<LlmRequest> for CachedRequest {
    fn from(request: LlmRequest) -> Self {
        // Serialization of strings, numbers and JSON values cannot fail.
        let json = to_raw_value(&request).unwrap_or_default();
        Self { request, json }
    }
}

impl Deref for CachedRequest {
    type Target = LlmRequest;

    fn deref(&self) -> &LlmRequest {
        &self.request
    }
}

impl Serialize for CachedRequest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.json.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for CachedRequest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        LlmRequest::deserialize(deserializer).map(Self::from)
    }
}
