//! Media types in `content-type`. Pure.

use http::{HeaderMap, header};

/// Returns whether headers name this media type, with or without parameters. Those without a type
/// have an empty one.
pub fn is_media_type(headers: &HeaderMap, name: &str) -> bool {
    let value = headers.get(header::CONTENT_TYPE);
    let text = value.and_then(|value| value.to_str().ok());
    let (media_type, _) = split_parameters(text.unwrap_or_default());
    media_type.eq_ignore_ascii_case(name)
}

/// Splits a value into the media type and its parameters.
pub fn split_parameters(value: &str) -> (&str, impl Iterator<Item = &str>) {
    let mut parts = value.split(';').map(str::trim);
    (parts.next().unwrap_or_default(), parts)
}
