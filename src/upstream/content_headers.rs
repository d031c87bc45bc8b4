//! What a head says of the body behind it. Pure.

use http::{HeaderMap, HeaderName, HeaderValue, header};
use thiserror::Error;

/// How much of a media type a message shows.
const SHOWN: usize = 40;

/// The media type of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MediaType {
    /// None is given.
    Absent,
    /// `application/json` in UTF-8.
    Json,
    /// `text/event-stream` in UTF-8.
    EventStream,
    /// Anything else, or more than one.
    Other,
}

/// An answer is no JSON by its head's word.
#[derive(Debug, PartialEq, Eq, Error)]
#[error("its content type is {given}, where JSON is wanted")]
pub struct UnexpectedContentType {
    given: String,
}

impl UnexpectedContentType {
    /// Says what the head has instead. It may hold anything, so only what looks
    /// like a media type is shown, without its parameters.
    pub fn from_headers(headers: &HeaderMap) -> Self {
        let is_plain = |it: char| it.is_ascii_lowercase() || "/.+-".contains(it);
        let name = only(headers, &header::CONTENT_TYPE).map(|it| {
            let name = it.split(';').next().unwrap_or_default();
            name.trim().to_owned()
        });
        let given = match name {
            None => "missing".to_owned(),
            Some(name) if name == "application/json" => "JSON in another charset".to_owned(),
            Some(name) if (1..=SHOWN).contains(&name.len()) && name.chars().all(is_plain) => {
                format!("`{name}`")
            }
            Some(_) => "none that is known".to_owned(),
        };
        Self { given }
    }
}

/// How a body is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContentEncoding {
    /// Not at all.
    Identity,
    /// `gzip`.
    Gzip,
    /// Otherwise, or more than once.
    Other,
}

/// The media type by the head's word.
pub fn media_type(headers: &HeaderMap) -> MediaType {
    let Some(text) = only(headers, &header::CONTENT_TYPE) else {
        return MediaType::Absent;
    };
    let mut words = text.split(';').map(str::trim);
    let name = words.next().unwrap_or_default();
    if !words.all(is_utf8) {
        return MediaType::Other;
    }
    match name.to_ascii_lowercase().as_str() {
        "application/json" => MediaType::Json,
        "text/event-stream" => MediaType::EventStream,
        _ => MediaType::Other,
    }
}

/// The encoding by the head's word.
pub fn encoding(headers: &HeaderMap) -> ContentEncoding {
    let Some(text) = only(headers, &header::CONTENT_ENCODING) else {
        return ContentEncoding::Identity;
    };
    match text.trim().to_ascii_lowercase().as_str() {
        "identity" => ContentEncoding::Identity,
        "gzip" | "x-gzip" => ContentEncoding::Gzip,
        _ => ContentEncoding::Other,
    }
}

/// A parameter that does not change what the bytes mean.
fn is_utf8(parameter: &str) -> bool {
    let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
    let value = value.trim_matches('"').to_ascii_lowercase();
    name.eq_ignore_ascii_case("charset") && matches!(value.as_str(), "utf-8" | "utf8")
}

/// A header's value; what is no text, or given twice, is a value that nobody
/// knows.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let text = values.next().map(HeaderValue::to_str)?;
    let is_only = values.next().is_none();
    Some(text.ok().filter(|_| is_only).unwrap_or("?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: &HeaderName, values: &[&'static str]) -> HeaderMap {
        let values = values.iter().map(|it| HeaderValue::from_static(it));
        values.map(|it| (name.clone(), it)).collect()
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
    fn what_stands_in_the_place_of_json_is_named() {
        for (values, expected) in [
            (&[][..], "missing"),
            (&["text/html; charset=utf-8"], "`text/html`"),
            (&["text/event-stream"], "`text/event-stream`"),
            (
                &["application/json; charset=utf-16"],
                "JSON in another charset",
            ),
            (&["text/plain; x=SECRET-4711"], "`text/plain`"),
            (&["SECRET-4711"], "none that is known"),
            (&["text/html", "application/json"], "none that is known"),
        ] {
            let said = UnexpectedContentType::from_headers(&headers(&header::CONTENT_TYPE, values))
                .to_string();
            let expected = format!("its content type is {expected}, where JSON is wanted");
            assert_eq!(said, expected);
        }
    }

    #[test]
    fn only_gzip_can_be_decoded() {
        for (values, expected) in [
            (&[][..], ContentEncoding::Identity),
            (&["identity"], ContentEncoding::Identity),
            (&["GZIP"], ContentEncoding::Gzip),
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
