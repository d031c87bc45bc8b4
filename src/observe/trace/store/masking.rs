//! Masking of bodies and texts by all detectors.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value, value::RawValue};
use stream_redact::{DETECTORS, Mask, Style};
use utoipa::ToSchema;

/// Bytes of a body beyond which it is not kept.
pub(crate) const MAX_BODY_BYTES: usize = 2 * 1024 * 1024;

/// A body with its secrets masked.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct MaskedBody {
    /// Body with labels in the place of secrets; a string if it is no JSON. Absent if it was
    /// too large.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub body: Option<Box<RawValue>>,
    /// Size of the whole body in bytes.
    pub bytes: u64,
    /// Number of masked texts, by detector.
    pub masked: BTreeMap<String, u32>,
}

impl MaskedBody {
    pub(crate) fn heap_bytes(&self) -> usize {
        let names = self
            .masked
            .keys()
            .map(|name| name.capacity() + size_of::<(String, u32)>());
        self.body.as_ref().map_or(0, |body| body.get().len()) + names.sum::<usize>()
    }
}

/// Compiles all detectors into one mask.
pub(crate) fn all_detectors() -> Option<Mask> {
    let names: Vec<&str> = DETECTORS.iter().map(|detector| detector.name).collect();
    Mask::new(&names, &[], &Style::Label).ok()
}

/// Masks a body: each string of JSON by itself, with its escapes removed before. Without a
/// mask, nothing of it is kept.
pub(crate) fn mask_body(mask: Option<&Mask>, body: &[u8]) -> MaskedBody {
    let mut masked = BTreeMap::new();
    let value = mask.filter(|_| body.len() <= MAX_BODY_BYTES).map(|mask| {
        let text = || Value::String(String::from_utf8_lossy(body).into_owned());
        let mut value = serde_json::from_slice(body).unwrap_or_else(|_| text());
        mask_value(mask, &mut value, &mut masked);
        value
    });
    MaskedBody {
        body: value.and_then(|value| serde_json::value::to_raw_value(&value).ok()),
        bytes: body.len() as u64,
        masked,
    }
}

/// Masks a text. Without a mask, nothing of it is kept.
pub(crate) fn mask_text(mask: Option<&Mask>, text: &str) -> String {
    let Some(mask) = mask else {
        return String::new();
    };
    mask.mask(text)
        .map_or_else(|| text.to_owned(), |masked| masked.text)
}

fn mask_value(mask: &Mask, value: &mut Value, found: &mut BTreeMap<String, u32>) {
    match value {
        Value::String(text) => mask_string(mask, text, found),
        Value::Array(items) => {
            for item in items {
                mask_value(mask, item, found);
            }
        }
        Value::Object(fields) => {
            for (mut key, mut field) in std::mem::take(fields) {
                mask_string(mask, &mut key, found);
                mask_value(mask, &mut field, found);
                fields.insert(key, field);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => (),
    }
}

fn mask_string(mask: &Mask, text: &mut String, found: &mut BTreeMap<String, u32>) {
    if let Some(masked) = mask.mask(text) {
        for detector in masked.detectors {
            *found.entry(detector.to_string()).or_default() += 1;
        }
        *text = masked.text;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_in_values_and_keys_are_masked_whatever_their_escapes() {
        let mask = all_detectors();
        let body = br#"{"a":"AKIA\u0049OSFODNN7EXAMPLE","john@example.com":[1,true]}"#;

        let masked = mask_body(mask.as_ref(), body);

        let text = masked.body.unwrap().get().to_owned();
        assert_eq!(
            text,
            r#"{"a":"[REDACTED:aws_key]","[REDACTED:email]":[1,true]}"#
        );
        assert_eq!(masked.masked["aws_key"], 1);
        assert_eq!(masked.bytes, body.len() as u64);
    }

    #[test]
    fn a_body_that_is_too_large_is_not_kept() {
        let masked = mask_body(all_detectors().as_ref(), &vec![b'1'; MAX_BODY_BYTES + 1]);

        assert!(masked.body.is_none());
    }
}
