//! Protection against requests of web pages (CSRF and DNS rebinding).
//!
//! A page of any site can send requests to every address that the browser's machine
//! reaches, and a site can point its name at such an address. The former shows in `Origin`
//! and `Sec-Fetch-Site`, the latter in `Host`.

use std::net::SocketAddr;

use axum::extract::Request;
use http::{HeaderMap, HeaderName, header, uri::Authority};
use url::Host;

use super::{header_validation::validate_target, rejected_request::ListenerKind};
use crate::{
    config::Browsers,
    error::{ApiError, ErrorReason},
};

/// Names of this machine, which browsers do not look up. Cookies of the second one are not sent to
/// servers of the first.
const LOCAL_NAMES: [&str; 2] = ["localhost", "hookgate.localhost"];

const SEC_FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Checks that a request at a listener, which is bound to this address, comes from no web page, or
/// from one that is allowed. A link to the console may be on any page: it reaches no handler.
///
/// # Errors
///
/// Returns an error if the origin or the host is not allowed, or an operator's request names
/// several hosts. Of agents' requests, the header check refuses these.
pub fn check_origin(
    request: &Request,
    browsers: &Browsers,
    listener: ListenerKind,
    bound: SocketAddr,
) -> Result<(), ApiError> {
    if listener == ListenerKind::Operators {
        validate_target(request)?;
    }
    let headers = request.headers();
    // Browsers send `Origin` with all but safe methods.
    let checks_host = request.method().is_safe() || listener == ListenerKind::Operators;
    let has_origin = headers.contains_key(header::ORIGIN) || headers.contains_key(SEC_FETCH_SITE);
    if !checks_host && !has_origin {
        return Ok(());
    }
    // Browsers always send `Host`.
    let host = headers.get(header::HOST).map(|value| {
        let value = value.to_str().ok();
        value.and_then(|value| value.parse::<Authority>().ok())
    });
    let is_own = match &host {
        None => true,
        Some(host) => host
            .as_ref()
            .is_some_and(|host| is_own_host(host, browsers)),
    };
    // Agents on other machines use names that the config does not list.
    let has_any_name = listener == ListenerKind::Agents && !bound.ip().is_loopback();
    if checks_host && !is_own && !has_any_name {
        let message =
            "host not allowed: use `localhost`, an IP address, or a name in `browsers.hosts`";
        return Err(ApiError::new(ErrorReason::ForeignHost, message));
    }
    let own = host.flatten().filter(|_| is_own);
    let is_link = listener == ListenerKind::Operators && is_foreign_link(request);
    if !is_link && is_foreign(headers, own.as_ref(), browsers, listener) {
        let message = foreign_origin_message(headers, listener);
        return Err(ApiError::new(ErrorReason::ForeignOrigin, message));
    }
    Ok(())
}

/// Returns whether a page of another site, or of a sibling of this one, opens a page of the console
/// in a tab or window, no frame. For a sibling, the browser sends the cookie of a login.
pub fn is_foreign_link(request: &Request) -> bool {
    let (path, headers) = (request.uri().path(), request.headers());
    let is_all = |name: HeaderName, expected: &str| {
        let mut values = headers.get_all(name).iter().peekable();
        values.peek().is_some() && values.all(|value| value == expected)
    };
    request.method().is_safe()
        && (path == "/" || path.starts_with("/console"))
        && !headers.contains_key(header::ORIGIN)
        && is_all(SEC_FETCH_MODE, "navigate")
        && is_all(SEC_FETCH_DEST, "document")
        && !is_same_origin(headers)
}

/// Returns whether no other site can have this name: an address, or a name of this machine
/// or of the config. Nothing but a port may follow it, and nothing precede it.
fn is_own_host(host: &Authority, browsers: &Browsers) -> bool {
    let port = host.as_str().strip_prefix(host.host());
    let port = port.map(|port| port.strip_prefix(':').unwrap_or(port));
    if !port.is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit())) {
        return false;
    }
    let name = host.host().to_ascii_lowercase();
    let name = name.strip_suffix('.').unwrap_or(&name);
    let is_address = matches!(Host::parse(name), Ok(Host::Ipv4(_) | Host::Ipv6(_)));
    is_address || LOCAL_NAMES.contains(&name) || browsers.hosts.iter().any(|own| own == name)
}

/// Returns whether no header marks a request as that of a page of another origin.
fn is_same_origin(headers: &HeaderMap) -> bool {
    let mut sites = headers.get_all(SEC_FETCH_SITE).iter();
    sites.all(|site| site == "same-origin" || site == "none")
}

/// Returns the message about a foreign origin. Over plain HTTP, browsers send no `Sec-Fetch-Site`
/// unless the host is their own machine, so that a form of the console has an unknown origin.
fn foreign_origin_message(headers: &HeaderMap, listener: ListenerKind) -> &'static str {
    let origin = headers.get(header::ORIGIN);
    let is_unknown =
        origin.is_some_and(|origin| origin == "null") && !headers.contains_key(SEC_FETCH_SITE);
    if is_unknown && listener == ListenerKind::Operators {
        "origin not allowed: forms of the console need TLS or the address `localhost`"
    } else {
        "origin not allowed: web pages need an entry in `browsers.origins`"
    }
}

/// Returns whether a web page with another origin than `own` and the allowed ones sent this.
fn is_foreign(
    headers: &HeaderMap,
    own: Option<&Authority>,
    browsers: &Browsers,
    listener: ListenerKind,
) -> bool {
    let mut origins = headers.get_all(header::ORIGIN).iter().peekable();
    let has_origin = origins.peek().is_some();
    let is_allowed = |origin: &str| {
        let authority = origin.strip_prefix("http://");
        let authority = authority.or_else(|| origin.strip_prefix("https://"));
        // Browsers mark an origin with another scheme. Behind a proxy for TLS, the gateway does not
        // have its own one to compare.
        let is_own = authority.is_some_and(|authority| own.is_some_and(|own| own == authority))
            && is_same_origin(headers);
        // Forms of the console, whose `Referrer-Policy` hides the origin from itself. Pages
        // cannot set `Sec-Fetch-Site`.
        let is_hidden = origin == "null" && listener == ListenerKind::Operators;
        let site = headers.get(SEC_FETCH_SITE);
        let is_own = is_own || (is_hidden && site.is_some_and(|site| site == "same-origin"));
        is_own || browsers.origins.iter().any(|allowed| allowed == origin)
    };
    if !origins.all(|origin| origin.to_str().is_ok_and(is_allowed)) {
        return true;
    }
    !has_origin && !is_same_origin(headers)
}
