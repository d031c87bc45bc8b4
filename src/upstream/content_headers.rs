//! Content headers: media type and encoding of a body. Pure.

use http::{HeaderMap, HeaderName, HeaderValue, header};
use thiserror::Error;

use crate::media_type::split_parameters;

/// Longest media type that a message shows, in bytes.
const MAX_SHOWN_BYTES: usize = 40;

/// Media type of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MediaType {
    /// The `content-type` header is absent.
    Absent,
    /// JSON: `application/json` in UTF-8.
    Json,
    /// Server-sent events: `text/event-stream` in UTF-8.
    EventStream,
    /// Another type, or more than one header.
    Other,
}

/// Response without the content type of JSON.
#[derive(Debug, PartialEq, Eq, Error)]
#[error("content type is {given}, expected JSON")]
pub struct UnexpectedContentType {
    given: String,
}

impl UnexpectedContentType {
    /// Describes the content type of `headers`. Only a plausible media type is shown,
    /// without parameters, since a header may hold anything.
    pub fn from_headers(headers: &HeaderMap) -> Self {
        let is_plain = |char: char| char.is_ascii_lowercase() || "/.+-".contains(char);
        let name =
            single_value(headers, &header::CONTENT_TYPE).map(|value| split_parameters(value).0);
        let given = match name {
            None => "missing".to_owned(),
            Some("application/json") => "JSON in another charset".to_owned(),
            Some(name)
                if (1..=MAX_SHOWN_BYTES).contains(&name.len()) && name.chars().all(is_plain) =>
            {
                format!("`{name}`")
            }
            Some(_) => "unknown".to_owned(),
        };
        Self { given }
    }
}

/// Content encoding of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContentEncoding {
    /// The body is not compressed.
    Identity,
    /// The body is compressed with `gzip`.
    Gzip,
    /// The body is compressed with `zstd`.
    Zstd,
    /// Another encoding, or more than one.
    Other,
}

/// Returns the media type given by `content-type`.
pub fn media_type(headers: &HeaderMap) -> MediaType {
    let Some(text) = single_value(headers, &header::CONTENT_TYPE) else {
        return MediaType::Absent;
    };
    let (name, mut parameters) = split_parameters(text);
    if !parameters.all(is_utf8_charset) {
        return MediaType::Other;
    }
    match name.to_ascii_lowercase().as_str() {
        "application/json" => MediaType::Json,
        "text/event-stream" => MediaType::EventStream,
        _ => MediaType::Other,
    }
}

/// Returns the encoding given by `content-encoding`.
pub fn encoding(headers: &HeaderMap) -> ContentEncoding {
    let Some(text) = single_value(headers, &header::CONTENT_ENCODING) else {
        return ContentEncoding::Identity;
    };
    match text.trim().to_ascii_lowercase().as_str() {
        "identity" => ContentEncoding::Identity,
        "gzip" | "x-gzip" => ContentEncoding::Gzip,
        "zstd" => ContentEncoding::Zstd,
        _ => ContentEncoding::Other,
    }
}

fn is_utf8_charset(parameter: &str) -> bool {
    let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
    let value = value.trim_matches('"').to_ascii_lowercase();
    name.eq_ignore_ascii_case("charset") && matches!(value.as_str(), "utf-8" | "utf8")
}

/// Returns a header's value; `?` if it is repeated or not text.
fn single_value<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let text = values.next().map(HeaderValue::to_str)?;
    let is_only = values.next().is_none();
    Some(text.ok().filter(|_| is_only).unwrap_or("?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: &HeaderName, values: &[&'static str]) -> HeaderMap {
        let values = values.iter().map(|value| HeaderValue::from_static(value));
        values.map(|value| (name.clone(), value)).collect()
    }

    #[test]
    fn only_utf_8_is_json() {
        for (values, expected) in [
            (&[][..], MediaType::Absent),
            (&["application/json"], MediaType::Json),
            (&["Application/JSON; Charset=\"UTF-8\""], MediaType::Json),
            (&["text/event-stream;charset=utf8"], MediaType::EventStream),
            (&["application/json; charset=utf-16"], MediaType::Other),
            (
                &["application/json; charset=utf-8; charset=utf-7"],
                MediaType::Other,
            ),
            (&["application/json, text/html"], MediaType::Other),
            (&["application/json", "application/json"], MediaType::Other),
            (&["application/jsonp"], MediaType::Other),
            (&["text/plain"], MediaType::Other),
            (&[""], MediaType::Other),
        ] {
            let found = media_type(&headers(&header::CONTENT_TYPE, values));
            assert_eq!(found, expected, "{values:?}");
        }
    }

    #[test]
    fn an_unexpected_content_type_is_shown_if_it_is_plausible() {
        for (values, expected) in [
            (&[][..], "missing"),
            (&["text/html; charset=utf-8"], "`text/html`"),
            (&["text/event-stream"], "`text/event-stream`"),
            (
                &["application/json; charset=utf-16"],
                "JSON in another charset",
            ),
            (&["text/plain; x=SECRET-4711"], "`text/plain`"),
            (&["SECRET-4711"], "unknown"),
            (&["text/html", "application/json"], "unknown"),
        ] {
            let message =
                UnexpectedContentType::from_headers(&headers(&header::CONTENT_TYPE, values))
                    .to_string();
            let expected = format!("content type is {expected}, expected JSON");
            assert_eq!(message, expected);
        }
    }

    #[test]
    fn only_one_known_encoding_can_be_decoded() {
        for (values, expected) in [
            (&[][..], ContentEncoding::Identity),
            (&["identity"], ContentEncoding::Identity),
            (&["GZIP"], ContentEncoding::Gzip),
            (&["zstd"], ContentEncoding::Zstd),
            (&["zstd, gzip"], ContentEncoding::Other),
            (&["br"], ContentEncoding::Other),
            (&["gzip, gzip"], ContentEncoding::Other),
            (&["gzip", "identity"], ContentEncoding::Other),
            (&[""], ContentEncoding::Other),
        ] {
            let found = encoding(&headers(&header::CONTENT_ENCODING, values));
            assert_eq!(found, expected, "{values:?}");
        }
    }
}
