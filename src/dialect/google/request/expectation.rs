//! The kind of response that a request expects.

use crate::dialect::{
    document::Document,
    error::Result,
    google::{
        fields::{CACHED_CONTENT, GENERATION_CONFIG},
        request::tool_declarations::declares_functions,
    },
};

/// The kind of response that a request expects.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ResponseExpectation {
    /// Format of the response's text.
    pub format: ResponseFormat,
    /// True if the response may call declared functions.
    pub declares_functions: bool,
}

/// Format of a response's text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ResponseFormat {
    /// Text without a prescribed format.
    #[default]
    Text,
    /// JSON, since the request has a response schema or a JSON media type.
    Json,
}

/// Returns the kind of response that a request expects.
pub fn expected_response(document: &Document) -> Result<ResponseExpectation> {
    let format = match document.child(GENERATION_CONFIG)? {
        Some(config) if wants_json(&config)? => ResponseFormat::Json,
        _ => ResponseFormat::Text,
    };
    Ok(ResponseExpectation {
        format,
        // Cached content may declare functions.
        declares_functions: declares_functions(document)? || document.has(CACHED_CONTENT),
    })
}

fn wants_json(config: &Document) -> Result<bool> {
    let media_type = config.string(&["responseMimeType", "response_mime_type"])?;
    let schema = config.get(&["responseSchema", "response_schema"])?;
    let json_schema = config.get(&["responseJsonSchema", "response_json_schema"])?;
    let has_schema = [schema, json_schema]
        .iter()
        .flatten()
        .any(|schema| !schema.is_null());
    Ok(media_type.as_deref() == Some("application/json") || has_schema)
}
