//! Removes the fields that only hookgate needs, for people and hooks.

use bytes::Bytes;
use memchr::memmem;
use serde_json::value::RawValue;

use crate::dialect::{
    document::{Document, edit_repeated, repeated},
    error::{Result, field_error},
    google::fields::{
        CANDIDATES, CONTAINER, CONTENT, CONTENTS, DECLARATIONS, HAS_MEDIA, HAS_STORED_HISTORY,
        IS_REFUSAL, IS_TOOLSET, PARTS, PHASE, PRECEDING, REQUESTS, SOURCE, STARTS_TEXT,
        SYSTEM_INSTRUCTION, TOOLS, WRAPPED_REQUEST,
    },
};

/// Begin of the names of private fields.
const PREFIX: &[u8] = b"hookgate";

const PRIVATE_FIELDS: [&str; 9] = [
    CONTAINER,
    HAS_MEDIA,
    HAS_STORED_HISTORY,
    SOURCE,
    STARTS_TEXT,
    PHASE,
    PRECEDING,
    IS_REFUSAL,
    IS_TOOLSET,
];

/// Fields with an object that may have private fields, at any depth.
const OBJECTS: [&[&str]; 3] = [CONTENT, SYSTEM_INSTRUCTION, WRAPPED_REQUEST];

/// Fields with a list of such objects.
const LISTS: [&[&str]; 6] = [CANDIDATES, CONTENTS, DECLARATIONS, PARTS, REQUESTS, TOOLS];

/// Returns JSON in the content form without the fields that only hookgate needs. Fields of such
/// names in arguments, results and schemas are content and stay.
pub fn without_private_fields(json: &Bytes) -> Bytes {
    let has = |name: &str| memmem::find(json, name.as_bytes()).is_some();
    if !PRIVATE_FIELDS.into_iter().any(has) {
        return json.clone();
    }
    let shown = Document::from_checked(json.clone()).and_then(|mut document| {
        remove_from(&mut document)?;
        Ok(document.to_bytes())
    });
    // Only a document that is not in the content form cannot be read.
    shown.unwrap_or_else(|_| json.clone())
}

/// Returns a document in the content form as hooks see it: without private fields, and without
/// the white space between tokens, which its sender chooses.
pub fn shown_to_hooks(document: Box<RawValue>) -> Option<Box<RawValue>> {
    let json = Bytes::from(Box::<str>::from(document).into_string());
    let mut shown = Vec::from(without_private_fields(&json));
    remove_white_space(&mut shown);
    RawValue::from_string(String::from_utf8(shown).ok()?).ok()
}

/// Refuses a document of an API that uses the content form itself, if it has fields of the names
/// that only hookgate needs: neither hooks nor text policies would see them.
///
/// # Errors
///
/// Fails for such a field, unless it is in arguments, results or schemas.
pub fn refuse_private_fields(document: &Document) -> Result<()> {
    let json = document.to_bytes();
    let has_name = memmem::find(&json, PREFIX).is_some();
    if !has_name && !document.may_have_escaped_keys() {
        return Ok(());
    }
    find_in(document).map_or(Ok(()), |field| Err(field_error(field, "absent")))
}

/// Removes the white space between the tokens of a valid JSON document.
fn remove_white_space(json: &mut Vec<u8>) {
    let (mut is_in_string, mut is_escaped) = (false, false);
    json.retain(|&byte| {
        if is_in_string {
            is_in_string = is_escaped || byte != b'"';
            is_escaped = byte == b'\\' && !is_escaped;
            return true;
        }
        is_in_string = byte == b'"';
        !matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
    });
}

fn find_in(object: &Document) -> Option<&'static str> {
    let mut names = PRIVATE_FIELDS.into_iter();
    if let Some(name) = names.find(|name| object.has(&[name])) {
        return Some(name);
    }
    let objects = OBJECTS.iter().filter_map(|field| object.child(field).ok()?);
    let lists = LISTS
        .iter()
        .filter_map(|field| repeated(object, field).ok()?);
    objects
        .chain(lists.flatten())
        .find_map(|inner| find_in(&inner))
}

fn remove_from(object: &mut Document) -> Result<()> {
    for field in PRIVATE_FIELDS {
        object.remove(&[field])?;
    }
    for field in OBJECTS {
        object.edit_child(field, remove_from)?;
    }
    for field in LISTS {
        edit_repeated(object, field, remove_from)?;
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
            r#"{"systemInstruction":{"parts":[{"text":"a","hookgateSource":0}]},"tools":[{"functionDeclarations":[{"name":"f","hookgateToolset":true,"hookgateSource":0}],"hookgateSource":0},{"web":{},"hookgateSource":1}]}"#,
            r#"{"systemInstruction":{"parts":[{"text":"a"}]},"tools":[{"functionDeclarations":[{"name":"f"}]},{"web":{}}]}"#,
        );
    }

    #[test]
    fn hooks_see_no_white_space_between_tokens() {
        for (json, expected) in [
            (
                "{ \"role\" :\t\"a \\\" : é\\\\\" ,\r\n \"n\": [ 1.50 , 1E+2 ] }",
                r#"{"role":"a \" : é\\","n":[1.50,1E+2]}"#,
            ),
            (
                r#"{ "hookgateContainer": [ 1 ], "contents": [ ] }"#,
                r#"{"contents":[]}"#,
            ),
        ] {
            let document = RawValue::from_string(json.to_owned()).unwrap();
            assert_eq!(shown_to_hooks(document).unwrap().get(), expected);
        }
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

    #[test]
    fn private_fields_are_refused_wherever_they_would_be_removed() {
        let is_refused = |json: &str| {
            let document = Document::from_checked(Bytes::copy_from_slice(json.as_bytes())).unwrap();
            refuse_private_fields(&document).is_err()
        };
        for json in [
            r#"{"hookgateSource":1}"#,
            r#"{"generateContentRequest":{"contents":[{"parts":[{"hookgatePreceding":"x"}]}]}}"#,
            r#"{"system_instruction":{"parts":[{"text":"a"},{"hookgate_source":0}]}}"#,
            r#"{"requests":[{"content":{"parts":[{"hookgateSourc\u0065":"x"}]}}]}"#,
            r#"{"tools":[{"function_declarations":[{"hookgateSource":"x"}]}]}"#,
            r#"{"contents":[{"\u0068ookgateSource":0}]}"#,
        ] {
            assert!(is_refused(json), "{json}");
        }
        let arguments = r#"{"name":"f","args":{"hookgateSource":"rm"}}"#;
        let json = format!(r#"{{"contents":[{{"parts":[{{"functionCall":{arguments}}}]}}]}}"#);
        assert!(!is_refused(&json));
    }
}
