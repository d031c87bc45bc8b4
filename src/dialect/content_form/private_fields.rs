//! Removes the fields that only hookgate needs, for people and hooks.

use bytes::Bytes;
use memchr::memmem;
use serde_json::value::RawValue;

use crate::dialect::{
    document::Document,
    error::DialectError,
    google::fields::{
        CANDIDATES, CONTENT, CONTENTS, DECLARATIONS, PARTS, PRECEDING, REQUESTS, SOURCE,
        SYSTEM_INSTRUCTION, TOOLS,
    },
};

/// Fields with an object that may have private fields, at any depth.
const OBJECTS: [&[&str]; 2] = [CONTENT, SYSTEM_INSTRUCTION];

/// Fields with a list of such objects.
const LISTS: [&[&str]; 6] = [CANDIDATES, CONTENTS, DECLARATIONS, PARTS, REQUESTS, TOOLS];

/// Returns JSON in the content form without the fields that only hookgate needs. Fields of such
/// names in arguments, results and schemas are content and stay.
pub fn without_private_fields(json: &Bytes) -> Bytes {
    let has = |name: &str| memmem::find(json, name.as_bytes()).is_some();
    if !has(SOURCE) && !has(PRECEDING) {
        return json.clone();
    }
    let shown = Document::from_checked(json.clone()).and_then(|mut document| {
        remove_from(&mut document)?;
        Ok(document.to_bytes())
    });
    // Only a document that is not in the content form cannot be read.
    shown.unwrap_or_else(|_| json.clone())
}

/// Returns a document in the content form as hooks see it.
pub fn shown_to_hooks(document: Box<RawValue>) -> Option<Box<RawValue>> {
    let json = Bytes::from(Box::<str>::from(document).into_string());
    let shown = without_private_fields(&json);
    RawValue::from_string(String::from_utf8(shown.into()).ok()?).ok()
}

fn remove_from(object: &mut Document) -> Result<(), DialectError> {
    object.remove(&[SOURCE])?;
    object.remove(&[PRECEDING])?;
    for field in OBJECTS {
        object.edit_child(field, remove_from)?;
    }
    for field in LISTS {
        object.edit_children(field, remove_from)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(json: &str, expected: &str) {
        let bytes = without_private_fields(&Bytes::copy_from_slice(json.as_bytes()));
        assert_eq!(bytes, expected);
    }

    #[test]
    fn private_fields_are_removed_from_contents_parts_and_tools() {
        check(
            r#"{"contents":[{"role":"user","parts":[{"hookgateSource":0,"text":"a"}],"hookgateSource":12}]}"#,
            r#"{"contents":[{"role":"user","parts":[{"text":"a"}]}]}"#,
        );
        check(
            r#"{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f"},"hookgateSource":1,"hookgatePreceding":[{"x":"]\"}"}]}]},"index":0}]}"#,
            r#"{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f"}}]},"index":0}]}"#,
        );
        check(
            r#"{"systemInstruction":{"parts":[{"text":"a","hookgateSource":0}]},"tools":[{"functionDeclarations":[{"name":"f","hookgateSource":0}],"hookgateSource":0},{"web":{},"hookgateSource":1}]}"#,
            r#"{"systemInstruction":{"parts":[{"text":"a"}]},"tools":[{"functionDeclarations":[{"name":"f"}]},{"web":{}}]}"#,
        );
    }

    #[test]
    fn fields_of_the_same_names_in_content_stay() {
        for json in [
            r#"{"contents":[{"parts":[{"text":"{\"hookgateSource\":1}"}]}]}"#,
            r#"{"contents":[{"parts":[{"functionCall":{"name":"f","args":{"hookgateSource":"rm"}}}]}]}"#,
            r#"{"contents":[{"parts":[{"functionResponse":{"name":"f","response":{"parts":[{"hookgatePreceding":"x"}]}}}]}]}"#,
            r#"{"contents":[{"parts":[{"block":{"hookgateSource":"x"}}]}],"labels":{"hookgateSource":"x"}}"#,
            r#"{"tools":[{"functionDeclarations":[{"name":"f","parameters":{"properties":{"hookgateSource":{}}}}]}]}"#,
        ] {
            check(json, json);
        }
    }
}
