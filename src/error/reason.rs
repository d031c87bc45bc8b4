//! Reasons of errors: their codes and HTTP statuses.

use http::StatusCode;

impl ErrorReason {
    /// Returns whether the same request may succeed if it is sent again.
    pub(super) fn is_temporary(self) -> bool {
        let others = [
            Self::BodyTimeout,
            Self::BodyBroken,
            Self::TooManyAttempts,
            Self::RateLimitExceeded,
            Self::ConcurrencyLimitExceeded,
            Self::UpstreamTimeout,
            Self::UpstreamUnreadable,
            Self::Internal,
        ];
        self.status() == StatusCode::SERVICE_UNAVAILABLE || others.contains(&self)
    }
}

macro_rules! error_reasons {
    ($($(#[$doc:meta])* $variant:ident: $status:ident, $code:literal, $name:literal;)+) => {
        /// Reason of a failed request; `docs/errors.md` explains each.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum ErrorReason {
            $($(#[$doc])* $variant,)+
        }

        impl ErrorReason {
            /// Every reason, in documentation order.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// Returns the HTTP status.
            pub const fn status(self) -> StatusCode {
                match self { $(Self::$variant => StatusCode::$status,)+ }
            }

            /// Returns the canonical code of Google's APIs (`google.rpc.Code`).
            pub const fn canonical_code(self) -> &'static str {
                match self { $(Self::$variant => $code,)+ }
            }

            /// Returns the name in `ErrorInfo.reason`, logs and the decision log.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }
        }
    };
}

error_reasons! {
    /// The body is not valid JSON.
    BadJson: BAD_REQUEST, "INVALID_ARGUMENT", "BAD_JSON";
    /// A field is missing or has the wrong type.
    BadDocument: BAD_REQUEST, "INVALID_ARGUMENT", "BAD_DOCUMENT";
    /// A value is given twice, so that two parsers could read it differently.
    Ambiguous: BAD_REQUEST, "INVALID_ARGUMENT", "AMBIGUOUS";
    /// A query parameter that is unknown or not forwarded, or has an invalid value.
    BadQuery: BAD_REQUEST, "INVALID_ARGUMENT", "BAD_QUERY";
    /// Request line or headers that two parsers could read differently.
    InvalidHeaders: BAD_REQUEST, "INVALID_ARGUMENT", "INVALID_HEADERS";
    /// Request line and headers are too large.
    HeadersTooLarge: REQUEST_HEADER_FIELDS_TOO_LARGE, "INVALID_ARGUMENT", "HEADERS_TOO_LARGE";
    /// A model call whose `content-type` is not JSON.
    BadContentType: BAD_REQUEST, "INVALID_ARGUMENT", "BAD_CONTENT_TYPE";
    /// Session name with invalid characters or length.
    BadSession: BAD_REQUEST, "INVALID_ARGUMENT", "BAD_SESSION";
    /// Not a valid event.
    BadEvent: BAD_REQUEST, "INVALID_ARGUMENT", "BAD_EVENT";
    /// A config or revision that cannot be applied.
    BadConfig: BAD_REQUEST, "FAILED_PRECONDITION", "BAD_CONFIG";
    /// The path is not served.
    UnknownPath: FORBIDDEN, "PERMISSION_DENIED", "UNKNOWN_PATH";
    /// No session has this id.
    UnknownSession: NOT_FOUND, "NOT_FOUND", "UNKNOWN_SESSION";
    /// The call is not in the live trace, or its content is not kept.
    UnknownCall: NOT_FOUND, "NOT_FOUND", "UNKNOWN_CALL";
    /// The config has no Redis that replicas share.
    NoFleet: NOT_FOUND, "NOT_FOUND", "NO_FLEET";
    /// The Redis that replicas share does not answer.
    FleetUnavailable: SERVICE_UNAVAILABLE, "UNAVAILABLE", "FLEET_UNAVAILABLE";
    /// The path does not support the HTTP method.
    MethodNotAllowed: METHOD_NOT_ALLOWED, "UNIMPLEMENTED", "METHOD_NOT_ALLOWED";
    /// The body is too large.
    BodyTooLarge: PAYLOAD_TOO_LARGE, "INVALID_ARGUMENT", "BODY_TOO_LARGE";
    /// The body was not received in time.
    BodyTimeout: REQUEST_TIMEOUT, "DEADLINE_EXCEEDED", "BODY_TIMEOUT";
    /// The body ended early or cannot be decompressed.
    BodyBroken: BAD_REQUEST, "INVALID_ARGUMENT", "BODY_BROKEN";
    /// Unsupported `content-encoding`, or `content-type` of an event.
    UnsupportedMediaType: UNSUPPORTED_MEDIA_TYPE, "INVALID_ARGUMENT", "UNSUPPORTED_MEDIA_TYPE";
    /// A hook or policy denied the request.
    PolicyDenied: FORBIDDEN, "PERMISSION_DENIED", "POLICY_DENIED";
    /// The request comes from a web page whose origin is not allowed.
    ForeignOrigin: FORBIDDEN, "PERMISSION_DENIED", "FOREIGN_ORIGIN";
    /// The `Host` header names another host.
    ForeignHost: FORBIDDEN, "PERMISSION_DENIED", "FOREIGN_HOST";
    /// A key or token is missing or invalid.
    Unauthenticated: UNAUTHORIZED, "UNAUTHENTICATED", "UNAUTHENTICATED";
    /// The role of the user does not allow the request.
    RoleRequired: FORBIDDEN, "PERMISSION_DENIED", "ROLE_REQUIRED";
    /// A request of a logged-in browser without the token of its session.
    BadCsrfToken: FORBIDDEN, "PERMISSION_DENIED", "BAD_CSRF_TOKEN";
    /// A method of the model API whose content is not inspected.
    MethodRefused: FORBIDDEN, "PERMISSION_DENIED", "METHOD_REFUSED";
    /// A session over a websocket.
    WebsocketRefused: UPGRADE_REQUIRED, "UNIMPLEMENTED", "WEBSOCKET_REFUSED";
    /// Cached content that does not belong to the caller.
    UnknownCache: FORBIDDEN, "PERMISSION_DENIED", "UNKNOWN_CACHE";
    /// A stored response that does not belong to the caller.
    UnknownResponse: NOT_FOUND, "NOT_FOUND", "UNKNOWN_RESPONSE";
    /// The model API is not configured.
    UpstreamNotConfigured: FORBIDDEN, "PERMISSION_DENIED", "UPSTREAM_NOT_CONFIGURED";
    /// Too many failed authentication attempts from the client's address.
    TooManyAttempts: TOO_MANY_REQUESTS, "RESOURCE_EXHAUSTED", "TOO_MANY_ATTEMPTS";
    /// The caller's rate limit is exceeded.
    RateLimitExceeded: TOO_MANY_REQUESTS, "RESOURCE_EXHAUSTED", "RATE_LIMIT_EXCEEDED";
    /// The caller's daily token quota is exceeded.
    TokenQuotaExceeded: TOO_MANY_REQUESTS, "RESOURCE_EXHAUSTED", "TOKEN_QUOTA_EXCEEDED";
    /// The caller has too many concurrent requests.
    ConcurrencyLimitExceeded: TOO_MANY_REQUESTS, "RESOURCE_EXHAUSTED", "CONCURRENCY_LIMIT_EXCEEDED";
    /// The keys of the token issuer cannot be fetched.
    IssuerUnavailable: SERVICE_UNAVAILABLE, "UNAVAILABLE", "ISSUER_UNAVAILABLE";
    /// The shared limits of the caller cannot be read.
    LimitsUnavailable: SERVICE_UNAVAILABLE, "UNAVAILABLE", "LIMITS_UNAVAILABLE";
    /// HTTP version other than 1.1.
    HttpVersion: HTTP_VERSION_NOT_SUPPORTED, "UNIMPLEMENTED", "HTTP_VERSION";
    /// The gateway is at a limit of requests, connections or memory.
    Overloaded: SERVICE_UNAVAILABLE, "UNAVAILABLE", "OVERLOADED";
    /// The decision log cannot be written.
    AuditUnavailable: SERVICE_UNAVAILABLE, "UNAVAILABLE", "AUDIT_UNAVAILABLE";
    /// The model API cannot be reached.
    UpstreamUnreachable: SERVICE_UNAVAILABLE, "UNAVAILABLE", "UPSTREAM_UNREACHABLE";
    /// The model API did not respond in time.
    UpstreamTimeout: GATEWAY_TIMEOUT, "DEADLINE_EXCEEDED", "UPSTREAM_TIMEOUT";
    /// The model API responded with a redirect.
    UpstreamRedirect: BAD_GATEWAY, "UNAVAILABLE", "UPSTREAM_REDIRECT";
    /// The response of the model API cannot be read.
    UpstreamUnreadable: BAD_GATEWAY, "UNAVAILABLE", "UPSTREAM_UNREADABLE";
    /// A bug or failure of the gateway itself.
    Internal: INTERNAL_SERVER_ERROR, "INTERNAL", "INTERNAL";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unavailable_service_is_temporary() {
        let temporary = ErrorReason::ALL
            .iter()
            .filter(|reason| reason.is_temporary());
        let names: Vec<&str> = temporary.map(|reason| reason.as_str()).collect();

        assert!(names.contains(&"LIMITS_UNAVAILABLE"), "{names:?}");
        assert!(!names.contains(&"TOKEN_QUOTA_EXCEEDED"), "{names:?}");
    }
}
