//! A request that gets no further than the door, as the decision log is told of
//! it.

use std::net::IpAddr;

use axum::extract::Request;
use http::{HeaderMap, HeaderValue, header, request::Parts};

use super::Peer;
use crate::{
    audit_log::{Audit, CallerRecord, DigestRecord, RefusedRecord, short},
    event::Trace,
};

/// Says of an error's response that the decision log knows of it.
#[derive(Debug, Clone, Copy)]
pub struct Recorded;

/// Where a request came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Door {
    /// Where agents connect.
    Agents,
    /// Where operators do.
    Operators,
}

impl Door {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Agents => "agents",
            Self::Operators => "operators",
        }
    }
}

/// What is remembered of a request until it is known whether it is refused.
#[derive(Debug)]
pub struct Asking {
    method: String,
    path: String,
    agent: Option<HeaderValue>,
    peer: Option<IpAddr>,
}

impl Asking {
    /// Of a request's head.
    pub fn of(head: &Parts) -> Self {
        let peer = head.extensions.get::<Peer>();
        Self::new((head.method.as_str(), head.uri.path()), &head.headers, peer)
    }

    /// Of a whole request.
    pub fn of_request(request: &Request) -> Self {
        let line = (request.method().as_str(), request.uri().path());
        let peer = request.extensions().get::<Peer>();
        Self::new(line, request.headers(), peer)
    }

    fn new((method, path): (&str, &str), headers: &HeaderMap, peer: Option<&Peer>) -> Self {
        Self {
            method: short(method),
            path: short(path),
            agent: headers.get(header::USER_AGENT).cloned(),
            peer: peer.map(|it| it.addr.ip()),
        }
    }
}

/// The record of a request that was refused at a door; why is yet to be said.
pub fn refused(door: Door, asking: Asking) -> RefusedRecord {
    let agent = asking.agent.as_ref();
    let agent = agent.map(|it| String::from_utf8_lossy(it.as_bytes()));
    RefusedRecord {
        door: door.as_str(),
        method: asking.method,
        path: DigestRecord::new(&asking.path, true),
        peer: asking.peer,
        caller: CallerRecord {
            agent: short(&agent.unwrap_or_default()),
            ..CallerRecord::default()
        },
        ..RefusedRecord::default()
    }
}

/// The span of a request with these headers; none if nobody is told of spans.
pub fn trace(audit: Option<&Audit>, headers: &HeaderMap) -> Trace {
    let Some(audit) = audit else {
        return Trace::default();
    };
    let mut sent = headers.get_all("traceparent").iter();
    let only = sent.next().filter(|_| sent.next().is_none());
    audit.trace(only.and_then(|it| it.to_str().ok()))
}
