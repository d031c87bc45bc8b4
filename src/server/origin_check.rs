//! Web pages in somebody's browser must not call, unless the config says so.
//!
//! A page of any site can send requests to an address that only the browser's
//! machine reaches, and a site can give its name this address (DNS rebinding).
//! The first shows in `Origin` and `Sec-Fetch-Site`, the second in `Host`.

use axum::extract::Request;
use http::{HeaderMap, HeaderName, header, uri::Authority};
use url::Host;

use crate::{
    config::{Browsers, Config},
    state::{ApiError, Door, ErrorReason},
};

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Refuses what web pages of others send.
pub(super) fn check(request: &Request, config: &Config, door: Door) -> Result<(), ApiError> {
    // What a page sends carries its origin, unless it only reads.
    let reads = request.method().is_safe();
    let named = reads || door == Door::Operators;
    refusal(request.headers(), config, (door, named)).map_or(Ok(()), Err)
}

/// Why a request is refused, if it is. `checked` says whether its `Host` must be
/// ours.
fn refusal(
    headers: &HeaderMap,
    config: &Config,
    (door, checked): (Door, bool),
) -> Option<ApiError> {
    let browsers = &config.browsers;
    if !checked && !headers.contains_key(header::ORIGIN) && !headers.contains_key(SEC_FETCH_SITE) {
        return None;
    }
    let host = headers.get(header::HOST).map(|it| it.to_str().ok());
    let host = host.map(|it| it.and_then(|it| it.parse::<Authority>().ok()));
    let is_own = match &host {
        // No browser leaves it out.
        None => true,
        Some(None) => false,
        Some(Some(host)) => is_own(host, browsers),
    };
    // Agents on other machines call this one by names that nobody lists.
    let may_be_named = door == Door::Agents && !config.listen.ip().is_loopback();
    if checked && !is_own && !may_be_named {
        let message = "this gateway has another name: use `localhost`, its IP address, or a name of `browsers.hosts`";
        return Some(ApiError::new(ErrorReason::ForeignHost, message));
    }
    let own = host.flatten().filter(|_| is_own);
    if is_foreign(headers, own.as_ref(), browsers) {
        let message = "web pages may not call, unless `browsers.origins` names theirs";
        return Some(ApiError::new(ErrorReason::ForeignOrigin, message));
    }
    None
}

/// Whether this is a name of ours that no other site can have: one of the config,
/// of this machine, or an address.
fn is_own(host: &Authority, browsers: &Browsers) -> bool {
    let name = host.host().to_ascii_lowercase();
    let name = name.strip_suffix('.').unwrap_or(&name);
    let is_address = matches!(Host::parse(name), Ok(Host::Ipv4(_) | Host::Ipv6(_)));
    is_address || name == "localhost" || browsers.hosts.iter().any(|it| it == name)
}

/// Whether a web page sends this that is neither ours nor let in.
fn is_foreign(headers: &HeaderMap, own: Option<&Authority>, browsers: &Browsers) -> bool {
    let mut origins = headers.get_all(header::ORIGIN).iter().peekable();
    let has_origin = origins.peek().is_some();
    let known = |origin: &str| {
        let authority = origin.strip_prefix("http://");
        let authority = authority.or_else(|| origin.strip_prefix("https://"));
        let is_ours = authority.is_some_and(|it| own.is_some_and(|own| own == it));
        is_ours || browsers.origins.iter().any(|it| it == origin)
    };
    if !origins.all(|it| it.to_str().is_ok_and(known)) {
        return true;
    }
    let mut sites = headers.get_all(SEC_FETCH_SITE).iter();
    !has_origin && !sites.all(|it| it == "same-origin" || it == "none")
}
