//! Masking of bodies and texts by all detectors.

use std::collections::BTreeMap;

use serde::{Serialize, de::IgnoredAny};
use serde_json::{Value, value::RawValue};
use stream_redact::Mask;
use utoipa::ToSchema;

use crate::observe::redaction::Redactor;

/// Bytes of a body beyond which it is not kept.
pub(crate) const MAX_BODY_BYTES: usize = 2 * 1024 * 1024;

/// A body with its secrets masked.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct MaskedBody {
    /// Body with labels in the place of secrets; a string if it is no JSON. Absent if it was
    /// too large, has too many strings, or there was no memory for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub body: Option<Box<RawValue>>,
    /// Size of the whole body in bytes.
    pub bytes: u64,
    /// Number of masked texts, by detector.
    pub masked: BTreeMap<String, u32>,
}

impl MaskedBody {
    /// Returns the body as JSON, if it is kept.
    pub fn value(&self) -> Option<Value> {
        serde_json::from_str(self.body.as_ref()?.get()).ok()
    }

    /// A body of this size that is not kept.
    pub(crate) const fn omitted(bytes: usize) -> Self {
        Self {
            body: None,
            bytes: bytes as u64,
            masked: BTreeMap::new(),
        }
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        let names = self
            .masked
            .keys()
            .map(|name| name.capacity() + size_of::<(String, u32)>());
        self.body.as_ref().map_or(0, |body| body.get().len()) + names.sum::<usize>()
    }
}

/// Masks a body: the strings and numbers of JSON, also where chunks split a secret; else the
/// text. Without a mask, nothing of it is kept.
pub(crate) fn mask_body(mask: Option<&Mask>, body: &[u8]) -> MaskedBody {
    let mut masked = BTreeMap::new();
    let mask = mask.filter(|_| body.len() <= MAX_BODY_BYTES);
    let text = mask.and_then(|mask| {
        let mut redactor = Redactor::new(mask);
        let mut text = String::from_utf8_lossy(body).into_owned();
        if serde_json::from_str::<IgnoredAny>(&text).is_ok() {
            // One with too many strings is not kept.
            text = redactor.body(&text, &mut []).ok()?.unwrap_or(text);
        } else {
            redactor.text(&mut text);
            text = Value::String(text).to_string();
        }
        masked = redactor.found();
        Some(text)
    });
    MaskedBody {
        body: text.and_then(|text| RawValue::from_string(text).ok()),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::redaction::full_mask;

    fn all_detectors() -> Option<Mask> {
        full_mask(&BTreeMap::new()).ok()
    }

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
    fn numbers_and_secrets_that_chunks_split_are_masked() {
        let mask = all_detectors();
        let chunk = |text: &str| {
            format!(r#"{{"candidates":[{{"content":{{"parts":[{{"text":"{text}"}}]}}}}]}}"#)
        };
        let chunks = [chunk("key AKIAIOS"), chunk("FODNN7EXA"), chunk("MPLE ok")];
        let body = format!(r#"[{},{{"card":4111111111111111}}]"#, chunks.join(","));

        let masked = mask_body(mask.as_ref(), body.as_bytes());

        let text = masked.body.unwrap().get().to_owned();
        assert!(text.contains("key [REDACTED:aws_key]"), "{text}");
        assert!(text.contains(r#"{"card":"[REDACTED:card]"}"#), "{text}");
        assert!(!text.contains("FODNN7EXA"), "{text}");
        assert_eq!((masked.masked["aws_key"], masked.masked["card"]), (1, 1));
    }

    #[test]
    fn a_text_that_is_no_json_is_kept_as_a_masked_string() {
        let masked = mask_body(all_detectors().as_ref(), b"4111 1111 1111 1111");

        assert_eq!(masked.body.unwrap().get(), r#""[REDACTED:card]""#);
    }

    #[test]
    fn a_body_that_is_too_large_is_not_kept() {
        let masked = mask_body(all_detectors().as_ref(), &vec![b'1'; MAX_BODY_BYTES + 1]);

        assert!(masked.body.is_none());
    }
}
