//! Masks of fields: lines leave this machine without some of their fields, or with a
//! hash instead, and name these fields, so that a copy can still be verified.

use std::borrow::Cow;

use memchr::memmem;
use serde::de::IgnoredAny;
use serde_json::Value;

use crate::{config::SinkMask, sha256::sha256_hex};

/// The content of a line: texts beside their hashes.
pub(super) const CONTENT_FIELDS: [&str; 6] = [
    "/received/text",
    "/sent/text",
    "/response/text",
    "/reason/text",
    "/path/text",
    "/input/text",
];

/// Treatment of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Treatment {
    Drop,
    Hash,
}

/// Returns a line without its line break, masked; `None` if it is no JSON, so that its fields
/// cannot be found. A line that has none of the fields keeps its bytes. Else `masked` names those
/// it had, before `hash`, which is that of the original line.
pub(super) fn masked<'a>(mask: &SinkMask, line: &'a [u8]) -> Option<Cow<'a, [u8]>> {
    let dropped = mask.drop.iter().map(|field| (field, Treatment::Drop));
    let hashed = mask.hash.iter().map(|field| (field, Treatment::Hash));
    let fields = dropped.chain(hashed);
    let mut fields = fields.filter(|(field, _)| may_have(line, field)).peekable();
    if fields.peek().is_none() {
        let checked = serde_json::from_slice::<IgnoredAny>(line);
        return checked.ok().map(|_| Cow::Borrowed(line));
    }
    let mut value: Value = serde_json::from_slice(line).ok()?;
    let present = fields.filter(|(field, treatment)| {
        let path: Vec<&str> = field.split('/').skip(1).collect();
        apply(&mut value, &path, *treatment)
    });
    let masked: Vec<Value> = present.map(|(field, _)| field.as_str().into()).collect();
    if masked.is_empty() {
        return Some(Cow::Borrowed(line));
    }
    if let Some(object) = value.as_object_mut() {
        let hash = object.shift_remove("hash");
        object.insert("masked".to_owned(), masked.into());
        object.extend(hash.map(|hash| ("hash".to_owned(), hash)));
    }
    Some(Cow::Owned(value.to_string().into_bytes()))
}

/// Returns whether a line may have a field: its name is in the text.
fn may_have(line: &[u8], field: &str) -> bool {
    let name = field.rsplit('/').find(|segment| *segment != "*");
    memmem::find(line, name.unwrap_or_default().as_bytes()).is_some()
}

/// Masks the field at a path; returns whether there is one.
fn apply(value: &mut Value, path: &[&str], treatment: Treatment) -> bool {
    match (path, value) {
        ([name], Value::Object(fields)) => match treatment {
            Treatment::Drop => fields.shift_remove(*name).is_some(),
            Treatment::Hash => fields.get_mut(*name).map(hash).is_some(),
        },
        ([name, rest @ ..], Value::Object(fields)) => {
            let field = fields.get_mut(*name);
            field.is_some_and(|field| apply(field, rest, treatment))
        }
        (["*", rest @ ..], Value::Array(items)) if !rest.is_empty() => {
            let masked = items.iter_mut().map(|item| apply(item, rest, treatment));
            masked.fold(false, |any, is_masked| any | is_masked)
        }
        _ => false,
    }
}

/// Replaces a value by the SHA-256 of its text, or of its JSON.
fn hash(value: &mut Value) {
    let json = value.to_string();
    let text = value.as_str().unwrap_or(&json);
    *value = sha256_hex(text).into();
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = r#"{"seq":1,"prev":"P","caller":{"name":"a","agent":"x"},"hooks":[{"name":"g","ms":1},{"name":"h"}],"hash":"H"}"#;

    fn owned(fields: &[&str]) -> Vec<String> {
        fields.iter().map(|&field| field.to_owned()).collect()
    }

    fn masked_line(drop: &[&str], hash: &[&str]) -> String {
        let (drop, hash) = (owned(drop), owned(hash));
        let masked = masked(&SinkMask { drop, hash }, LINE.as_bytes());
        String::from_utf8(masked.unwrap().into_owned()).unwrap()
    }

    #[test]
    fn fields_are_dropped_or_hashed_and_named() {
        let line = masked_line(
            &["/caller/agent", "/hooks/*/ms", "/nothing"],
            &["/caller/name"],
        );

        // printf a | sha256sum
        let hash = "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb";
        let expected = format!(
            r#"{{"seq":1,"prev":"P","caller":{{"name":"{hash}"}},"hooks":[{{"name":"g"}},{{"name":"h"}}],"masked":["/caller/agent","/hooks/*/ms","/caller/name"],"hash":"H"}}"#
        );
        assert_eq!(line, expected);
    }

    #[test]
    fn a_line_that_is_no_json_is_not_sent() {
        for drop in [&[][..], &["/caller/agent"]] {
            let (drop, hash) = (owned(drop), Vec::new());
            let cut = LINE.as_bytes().split_last().unwrap().1;
            assert_eq!(masked(&SinkMask { drop, hash }, cut), None);
        }
    }

    #[test]
    fn a_line_without_the_fields_keeps_its_bytes() {
        for drop in [&[][..], &["/agent"], &["/caller/ms"], &["/hooks/name"]] {
            assert_eq!(masked_line(drop, &[]), LINE);
        }
    }
}
