//! Arguments of commands that use gateways and servers: URLs, and files with tokens.

use std::{ffi::OsStr, fs, path::Path};

use clap::{
    Arg, Command,
    builder::TypedValueParser,
    error::{Error, ErrorKind},
};
use url::Url;

use super::failure::Failure;
use crate::config::is_http_url;

/// Parser of a URL. Keys and tokens have options of their own, so that they are in no list of
/// processes: a URL with a user or password is refused, without being printed.
#[derive(Debug, Clone, Copy)]
pub(super) struct ServiceUrlParser;

impl TypedValueParser for ServiceUrlParser {
    type Value = Url;

    fn parse_ref(
        &self,
        command: &Command,
        argument: Option<&Arg>,
        value: &OsStr,
    ) -> Result<Url, Error> {
        let url = value.to_str().and_then(|text| Url::parse(text).ok());
        url.filter(is_http_url).ok_or_else(|| {
            let argument = argument.map(ToString::to_string).unwrap_or_default();
            let message =
                format!("`{argument}` must be an http or https URL without user or fragment\n");
            Error::raw(ErrorKind::ValueValidation, message).with_cmd(command)
        })
    }
}

/// Reads a token from a file. `what` is the file's purpose in errors.
pub(super) fn read_token(path: &Path, what: &str) -> Result<String, Failure> {
    let source = format!("{what} `{}`", path.display());
    let text = fs::read_to_string(path);
    let text =
        text.map_err(|error| Failure::Failed(format!("the {source} cannot be read: {error}")))?;
    valid_token(&text, &source)
}

/// Returns the token in a text, without the white space around it. `source` is the text's
/// origin in errors.
pub(super) fn valid_token(text: &str, source: &str) -> Result<String, Failure> {
    let token = text.trim();
    if token.is_empty() || token.contains(|char: char| !char.is_ascii_graphic()) {
        let message = format!("the {source} must be one line of ASCII without white space");
        return Err(Failure::Failed(message));
    }
    Ok(token.to_owned())
}
