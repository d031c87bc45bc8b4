//! Writing of server-sent events, in a form that all clients read.

use bytes::BytesMut;
use memchr::memchr2;

use crate::dialect::error::{Result, field_error};

/// Checks the name of an event, which clients read from a line of its own.
///
/// # Errors
///
/// Fails for characters that no API has in a name, because they could end the line and begin
/// another event.
pub fn check_event_name(name: &str) -> Result<()> {
    if name.bytes().all(|byte| byte.is_ascii_graphic()) {
        Ok(())
    } else {
        Err(field_error("type", "the name of an event"))
    }
}

/// Writes one event without a name.
pub fn write_event(out: &mut BytesMut, json: &[u8]) {
    write_data(out, json, b"\r\n\r\n");
}

/// Writes one event without a name, ended by line feeds, as APIs of OpenAI send them: some
/// clients look for nothing else.
pub fn write_plain_event(out: &mut BytesMut, data: &[u8]) {
    write_data(out, data, b"\n\n");
}

/// Writes one event with a name, which some clients require.
pub fn write_named_event(out: &mut BytesMut, name: &str, json: &[u8]) {
    out.reserve(name.len() + json.len() + 18);
    out.extend_from_slice(b"event: ");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\n");
    write_data(out, json, b"\n\n");
}

/// Writes the data of an event, and its end. Line ends within JSON are white space, so they become
/// spaces.
fn write_data(out: &mut BytesMut, json: &[u8], end: &[u8]) {
    out.reserve(json.len() + 10);
    out.extend_from_slice(b"data: ");
    let mut rest = json;
    while let Some(at) = memchr2(b'\r', b'\n', rest) {
        let (line, behind) = rest.split_at_checked(at).unwrap_or_default();
        out.extend_from_slice(line);
        out.extend_from_slice(b" ");
        rest = behind.get(1..).unwrap_or_default();
    }
    out.extend_from_slice(rest);
    out.extend_from_slice(end);
}
