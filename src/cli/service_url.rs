//! URLs of gateways and servers on the command line.

use std::ffi::OsStr;

use clap::{
    Arg, Command,
    builder::TypedValueParser,
    error::{Error, ErrorKind},
};
use url::Url;

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
