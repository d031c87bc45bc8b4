//! Lists of one element, which Google's APIs also read without brackets.

use crate::dialect::{
    document::{Document, first_byte, write_array},
    error::DialectError,
    google::fields::{CONTENT, CONTENTS, PARTS, SYSTEM_INSTRUCTION, TOOLS, WRAPPED_REQUEST},
};

/// Returns a request with brackets around contents, parts and tools that are one object.
pub fn with_lists(mut request: Document) -> Result<Document, DialectError> {
    add_brackets(&mut request)?;
    edit_object(&mut request, WRAPPED_REQUEST, add_brackets)?;
    if !request.is_edited() {
        return Ok(request);
    }
    Document::from_checked(request.to_bytes())
}

fn add_brackets(request: &mut Document) -> Result<(), DialectError> {
    to_list(request, TOOLS)?;
    to_list(request, CONTENTS)?;
    request.edit_children(CONTENTS, |content| to_list(content, PARTS))?;
    for field in [SYSTEM_INSTRUCTION, CONTENT] {
        edit_object(request, field, |content| to_list(content, PARTS))?;
    }
    Ok(())
}

/// Edits the object in a field. Other values are refused where they are read.
fn edit_object(
    request: &mut Document,
    field: &[&str],
    edit: fn(&mut Document) -> Result<(), DialectError>,
) -> Result<(), DialectError> {
    if first_byte(request, field)? != Some(b'{') {
        return Ok(());
    }
    request.edit_child(field, edit)
}

fn to_list(object: &mut Document, field: &[&str]) -> Result<(), DialectError> {
    let json = object.bytes_of(field)?;
    match json.filter(|json| json.starts_with(b"{")) {
        Some(json) => object.set_bytes(field, write_array([json])),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::document::parse_document;

    #[track_caller]
    fn check(request: &'static str, expected: &str) {
        let request = parse_document(request.into()).unwrap();
        assert_eq!(with_lists(request).unwrap().to_bytes(), expected);
    }

    #[test]
    fn objects_in_place_of_lists_get_brackets() {
        check(
            r#"{ "contents": {"role":"user","parts":{"text":"a"}}, "system_instruction":{"parts":{"text":"b"}},"tools":{"googleSearch":{}}}"#,
            r#"{ "contents": [{"role":"user","parts":[{"text":"a"}]}], "system_instruction":{"parts":[{"text":"b"}]},"tools":[{"googleSearch":{}}]}"#,
        );
        check(
            r#"{"generateContentRequest":{"contents":[{"parts":{"text":"a"}}]},"content":{"parts":{"text":"b"}}}"#,
            r#"{"generateContentRequest":{"contents":[{"parts":[{"text":"a"}]}]},"content":{"parts":[{"text":"b"}]}}"#,
        );
    }
}
