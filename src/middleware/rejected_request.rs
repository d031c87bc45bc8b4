//! Decision-log record of a request that is rejected before its method is known.

use std::net::IpAddr;

use axum::{extract::Request, response::Response};
use http::{Extensions, HeaderMap, HeaderValue, Method, Uri, header};

use super::request_extensions::{PeerInfo, RequestId};
use crate::{
    audit_log::{AuditLog, CallerRecord, RejectionRecord, TextDigest, short_name},
    error::ApiError,
    event::Caller,
};

/// Response extension of an error that is in the decision log already.
#[derive(Debug, Clone, Copy)]
pub struct AuditRecorded;

/// Response extension of an error whose response is rendered already, as a page.
#[derive(Debug, Clone)]
pub struct RenderedError(pub ApiError);

named_enum! {
    /// Listener that received a request.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum ListenerKind {
        /// Model calls and events.
        Agents = "agents",
        /// Listener of the admin API.
        Operators = "operators",
    }
}

/// Parts of a request that its record needs if it is rejected.
#[derive(Debug)]
pub struct RejectedRequest {
    method: String,
    uri: Uri,
    user_agent: Option<HeaderValue>,
    peer: Option<IpAddr>,
}

impl RejectedRequest {
    /// Copies the parts from a request's head.
    pub fn new(method: &Method, uri: &Uri, headers: &HeaderMap, extensions: &Extensions) -> Self {
        Self {
            method: short_name(method.as_str()),
            uri: uri.clone(),
            user_agent: headers.get(header::USER_AGENT).cloned(),
            peer: extensions.get::<PeerInfo>().map(|peer| peer.addr.ip()),
        }
    }

    /// Copies the parts from a request.
    pub fn from_request(request: &Request) -> Self {
        let (method, uri) = (request.method(), request.uri());
        Self::new(method, uri, request.headers(), request.extensions())
    }

    /// Writes the record of an error response, unless the decision log has it already.
    pub fn record(
        self,
        audit: &AuditLog,
        listener: ListenerKind,
        id: &RequestId,
        response: &Response,
    ) {
        let extensions = response.extensions();
        let is_recorded = extensions.get::<AuditRecorded>().is_some();
        let rendered = || extensions.get::<RenderedError>().map(|error| &error.0);
        let error = extensions.get::<ApiError>().or_else(rendered);
        let Some(error) = error.filter(|_| !is_recorded) else {
            return;
        };
        let mut record = self.into_record(listener);
        record.request = id.0.to_string();
        if let Some(caller) = extensions.get::<Caller>() {
            record.caller = CallerRecord {
                agent: record.caller.agent,
                ..CallerRecord::from(caller)
            };
        }
        record.error = error.reason().as_str();
        record.status = error.status().as_u16();
        audit.append_rejection(record);
    }

    /// Creates the record, without caller and error.
    pub fn into_record(self, listener: ListenerKind) -> RejectionRecord {
        let user_agent = self.user_agent.as_ref();
        let user_agent = user_agent.map(|value| String::from_utf8_lossy(value.as_bytes()));
        RejectionRecord {
            listener: listener.as_str(),
            method: self.method,
            path: TextDigest::with_text(self.uri.path()),
            peer: self.peer,
            caller: CallerRecord {
                agent: short_name(&user_agent.unwrap_or_default()),
                ..CallerRecord::default()
            },
            ..RejectionRecord::default()
        }
    }
}
