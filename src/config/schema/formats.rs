//! The custom values of `format` in the schema of a config.

use std::net::{IpAddr, SocketAddr};

use jsonschema::ValidationOptions;
use url::{Host, Url};

use super::did_you_mean::did_you_mean;
use crate::{config::registry::Format, event::EventName};

/// Names of the events that can be derived from model calls.
pub(super) const DERIVED_EVENT: Format = Format {
    name: "derived-event",
    check: check_derived_event,
};

/// Adds the formats of this module to a validator.
pub(super) fn add_to(options: ValidationOptions<'_>) -> ValidationOptions<'_> {
    options
        .with_format("socket-address", |text: &str| {
            text.parse::<SocketAddr>().is_ok()
        })
        .with_format("base-url", |text: &str| {
            Url::parse(text).is_ok_and(|url| is_base_url(&url))
        })
        .with_format("hook-url", |text: &str| {
            Url::parse(text).is_ok_and(|url| is_http_url(&url))
        })
        .with_format("age-recipient", |text: &str| {
            text.parse::<age_file::Recipient>().is_ok()
        })
        .with_format("bundle-key", |text: &str| {
            text.parse::<policy_bundle::PublicKey>().is_ok()
        })
        .with_format("jwks-url", is_jwks_url)
        .with_format("origin", is_origin)
}

/// Checks that `url` can be put before the path of a request.
pub(crate) fn is_base_url(url: &Url) -> bool {
    is_http_url(url) && url.query().is_none()
}

/// Checks that `url` can be connected to, and has no credentials.
pub(crate) fn is_http_url(url: &Url) -> bool {
    matches!(url.scheme(), "http" | "https") && has_no_user_or_fragment(url)
}

/// Checks that an issuer's keys can be fetched from `text` without being replaced on
/// the network: by https, or from this machine.
fn is_jwks_url(text: &str) -> bool {
    Url::parse(text).is_ok_and(|url| {
        let is_safe = match url.scheme() {
            "https" => true,
            "http" => is_loopback(&url),
            _ => false,
        };
        is_safe && url.has_host() && has_no_user_or_fragment(&url)
    })
}

fn has_no_user_or_fragment(url: &Url) -> bool {
    url.username().is_empty() && url.password().is_none() && url.fragment().is_none()
}

/// Checks that `url` names this machine.
pub(crate) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => IpAddr::from(ip).to_canonical().is_loopback(),
        None => false,
    }
}

/// Checks that `text` is an origin in the form that browsers send.
fn is_origin(text: &str) -> bool {
    Url::parse(text).is_ok_and(|url| {
        matches!(url.scheme(), "http" | "https") && url.origin().ascii_serialization() == text
    })
}

/// The events that can be derived from model calls, in the order of a turn.
pub(crate) fn derivable_events() -> Vec<EventName> {
    let events = EventName::ALL.iter().copied();
    events.filter(|event| event.is_derivable()).collect()
}

fn check_derived_event(text: &str) -> Result<(), String> {
    match EventName::parse(text) {
        Some(event) if event.is_derivable() => Ok(()),
        Some(event) if event.is_model_call() => Err(format!(
            "cannot be `{event}`: each model call is one, so there is nothing to derive"
        )),
        Some(event) => Err(format!(
            "cannot be `{event}`: it does not show in model calls, only agents can report it"
        )),
        None => {
            let hint = did_you_mean(text, EventName::ALL.iter().map(|event| event.as_str()));
            Err(format!("must be the name of an event, not `{text}`{hint}"))
        }
    }
}
