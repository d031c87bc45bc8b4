//! The records of a decision log.
//!
//! Content (texts of users, models and hooks) is stored as a hash; the text itself only
//! if the config enables it. Names of tools, models, sessions and hooks are not content.

use std::{net::IpAddr, time::Duration};

use chained_log::LogNotice;
use memchr::memchr;
use serde::Serialize;

use super::{
    body_digest::BodyDigest,
    hook_run_record::HookRunRecord,
    promotion_record::{PromotionRecord, RolloutRecord},
    shadow_record::ShadowRecord,
    span_ids::SpanIds,
    time_range::TimeRange,
};
use crate::{
    config::AuditMode,
    event::{Action, Caller, EventName, Trace},
    observe::{MAX_NAME_BYTES, ReloadOutcome, TokenUsage, truncated},
    sha256::sha256_hex,
    timestamp::utc_timestamp,
};

/// The control character that JSON allows in texts and `jq` escapes.
const DELETE: u8 = 0x7f;

/// Bytes of a text that are stored, such as a reason or a path.
const MAX_TEXT_BYTES: usize = 16 * 1024;

/// One line of the log, except for its position in the chain.
#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum AuditRecord {
    /// Writing to the log started.
    Start {
        /// Version of hookgate that writes.
        version: &'static str,
        /// Durability of records before calls proceed.
        mode: AuditMode,
        /// True if content is stored.
        content: bool,
    },
    /// The config was reloaded.
    Reload {
        /// Result of the reload: `applied` if the new config is in force, else `rejected`.
        outcome: ReloadOutcome,
    },
    /// A model call is about to go upstream, or was decided without.
    Request(Box<RequestRecord>),
    /// An event was fired.
    Event(Box<EventRecord>),
    /// A model call has ended.
    Outcome(Box<OutcomeRecord>),
    /// A request was rejected before it was recognised as a model call.
    Rejected(Box<RejectionRecord>),
    /// Content of the live trace was viewed, or is kept on purpose from now on.
    Viewed(ViewRecord),
    /// A stored revision of the config is in use.
    Promoted(PromotionRecord),
    /// A rollout has begun, taken a step, or ended.
    Rollout(RolloutRecord),
    /// A shadow has started or ended.
    Shadow(ShadowRecord),
    /// Rejected requests that have no records of their own.
    Suppressed {
        /// Number of suppressed requests.
        requests: u64,
    },
    /// The log has something to report about itself.
    #[serde(untagged)]
    Log(LogNotice),
}

/// The caller of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct CallerRecord {
    /// Name in the config; absent without authentication.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Key that separates sessions of callers: SHA-256 of the credential, or of the
    /// name; absent without either.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub key: String,
    /// Value of the `User-Agent` header.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub agent: String,
}

/// A model call before it goes upstream.
#[derive(Debug, Default, Serialize)]
pub struct RequestRecord {
    /// Request id, as in `x-hookgate-request-id`.
    pub request: String,
    /// Span of the request; a field of the line.
    #[serde(skip)]
    pub trace: Trace,
    /// Number of upstream requests for this call, this one included; 0 if none is made.
    pub round: u32,
    /// Session id; empty if unknown.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub session: String,
    /// Caller of the request.
    pub caller: CallerRecord,
    /// Dialect of the call.
    pub dialect: &'static str,
    /// API method, such as `generateContent`.
    pub method: &'static str,
    /// Model that the agent requested.
    pub requested_model: String,
    /// Model that is called.
    pub model: String,
    /// Body from the agent; absent until it is read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub received: Option<BodyDigest>,
    /// Body sent upstream; absent if none is sent, or if it is streamed unread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sent: Option<BodyDigest>,
}

/// An event and its verdict. All chunks of one response are one event.
#[derive(Debug, Serialize)]
pub struct EventRecord {
    /// Id of the request that caused or reported the event; its own if the session expired.
    pub request: String,
    /// Session id; empty if unknown.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub session: String,
    /// Caller of the event.
    pub caller: CallerRecord,
    /// Span of the request; a field of the line.
    #[serde(skip)]
    pub trace: Trace,
    /// Time range in which its hooks ran; not written to the log.
    #[serde(skip)]
    pub time: TimeRange,
    /// Name of the event.
    pub event: EventName,
    /// `call`, `derived` or `reported`.
    pub origin: &'static str,
    /// Tool of the event, or the value that matchers are applied to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// Number of chunks that hooks inspected, for events of a response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chunks: Option<u64>,
    /// Policies and hooks that ran, in order.
    pub hooks: Vec<HookRunRecord>,
    /// Verdict of all hooks together; absent if the event was not decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Action>,
    /// Reason why the event was not decided, such as `client_disconnected`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<&'static str>,
    /// Reason of a denial or stop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<TextDigest>,
    /// Input that the agent reported or that was derived from its call; only if the log
    /// stores content.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<BodyDigest>,
}

/// Hash of a text in a log line, with the text itself if the log stores content.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct TextDigest {
    /// SHA-256 of the whole text.
    pub sha256: String,
    /// The text, truncated; only if the log stores content.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// A model call that has ended.
#[derive(Debug, Default, Serialize)]
pub struct OutcomeRecord {
    /// Request id, as in `x-hookgate-request-id`.
    pub request: String,
    /// Session id; empty if unknown.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub session: String,
    /// Caller of the request.
    pub caller: CallerRecord,
    /// Further attributes of the call's span; not written to the log.
    #[serde(skip)]
    pub call: CallSpan,
    /// Action of hookgate on the call, as in `x-hookgate-action`.
    pub action: &'static str,
    /// Code of hookgate's own error that is the response, or broke it off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<&'static str>,
    /// HTTP status of the response; 0 if the agent disconnected before it.
    pub status: u16,
    /// End of the response body, such as `complete` or `client_disconnected`.
    pub ended: &'static str,
    /// Upstream address of the last attempt, `primary` or `fallback`; empty if none.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub upstream: &'static str,
    /// Number of upstream requests.
    pub rounds: u32,
    /// Model that was called last.
    pub model: String,
    /// Body from the agent, unless a request record holds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub received: Option<BodyDigest>,
    /// Body of the response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response: Option<BodyDigest>,
    /// Number of chunks that hooks inspected.
    pub chunks: u64,
    /// Tokens as counted by upstream, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<TokenUsage>,
    /// Time from the request's head to the end of the response, in milliseconds.
    pub duration_ms: u64,
}

/// Attributes of a call's span that its outcome record does not hold.
#[derive(Debug, Default)]
pub struct CallSpan {
    /// Trace, span and parent ids.
    pub trace: Trace,
    /// Dialect of the call.
    pub dialect: &'static str,
    /// API method, such as `generateContent`.
    pub method: &'static str,
    /// Model that the agent requested.
    pub requested_model: String,
    /// Model named in the response; empty if none.
    pub response_model: String,
    /// Duration of the call.
    pub elapsed: Duration,
}

/// A view of content, or a watch that keeps it.
#[derive(Debug, Default, Serialize)]
pub struct ViewRecord {
    /// Operator; `local` if no credential is configured.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub by: String,
    /// Id of the request whose content was viewed; empty for a watch.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub request: String,
    /// Session of the content; empty if unknown.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub session: String,
    /// Caller of a watched session, without a key if it has no credential; absent for a view, and
    /// for a watch of the sessions of all callers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caller: Option<CallerRecord>,
    /// Reason that the operator gave.
    #[serde(rename = "because")]
    pub reason: String,
}

/// A request that was rejected before it was recognised as a model call.
#[derive(Debug, Default, Serialize)]
pub struct RejectionRecord {
    /// Request id, as in `x-hookgate-request-id`.
    pub request: String,
    /// Listener: `agents` or `operators`.
    pub listener: &'static str,
    /// Operation that was requested, such as `files.list`; empty if unknown.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub operation: &'static str,
    /// HTTP method of the request.
    pub method: String,
    /// Path without the query. Agents choose it, so it is content.
    pub path: TextDigest,
    /// Code of the error.
    pub error: &'static str,
    /// HTTP status of the response.
    pub status: u16,
    /// Address of the connection's peer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer: Option<IpAddr>,
    /// The caller, as far as it is known.
    pub caller: CallerRecord,
}

impl AuditRecord {
    /// Returns the fields of the record's line, without the braces around them.
    /// `config` is the version of the config in force; empty if it does not matter. `jq -c` keeps
    /// the bytes.
    pub(super) fn to_line(&self, config: &str) -> Vec<u8> {
        #[derive(Serialize)]
        struct Fields<'a> {
            time: String,
            #[serde(skip_serializing_if = "str::is_empty")]
            config: &'a str,
            #[serde(skip_serializing_if = "Option::is_none")]
            trace: Option<SpanIds>,
            #[serde(flatten)]
            record: &'a AuditRecord,
        }

        let fields = Fields {
            time: utc_timestamp(),
            config,
            trace: SpanIds::of(self.trace()),
            record: self,
        };
        // Structs of strings and numbers always serialize.
        let mut line = serde_json::to_vec(&fields).unwrap_or_default();
        line.pop();
        if !line.is_empty() {
            line.remove(0);
        }
        if memchr(DELETE, &line).is_some() {
            let parts: Vec<&[u8]> = line.split(|byte| *byte == DELETE).collect();
            line = parts.join(br"\u007f".as_slice());
        }
        line
    }

    /// Returns the span that the record belongs to, if spans are exported.
    fn trace(&self) -> Trace {
        match self {
            Self::Request(request) => request.trace,
            Self::Event(event) => event.trace,
            Self::Outcome(outcome) => outcome.call.trace,
            Self::Start { .. }
            | Self::Reload { .. }
            | Self::Rejected(_)
            | Self::Viewed(_)
            | Self::Promoted(_)
            | Self::Rollout(_)
            | Self::Shadow(_)
            | Self::Suppressed { .. }
            | Self::Log(_) => Trace::default(),
        }
    }
}

impl From<&Caller> for CallerRecord {
    fn from(caller: &Caller) -> Self {
        Self {
            name: short_name(&caller.name),
            key: caller.key.clone(),
            agent: short_name(&caller.agent),
        }
    }
}

impl TextDigest {
    /// Creates the digest of a text, without the text itself.
    pub fn new(text: &str) -> Self {
        Self {
            sha256: sha256_hex(text),
            text: None,
        }
    }

    /// Creates the digest of a text, with the text.
    pub fn with_text(text: &str) -> Self {
        Self {
            text: Some(truncated(text, MAX_TEXT_BYTES).to_owned()),
            ..Self::new(text)
        }
    }
}

impl ViewRecord {
    /// A view of the content of a request or, if that is empty, a watch of a session.
    pub fn new(by: &str, request: &str, session: &str, reason: &str) -> Self {
        Self {
            by: short_name(by),
            request: short_name(request),
            session: short_name(session),
            caller: None,
            reason: truncated(reason, MAX_TEXT_BYTES).to_owned(),
        }
    }
}

/// Returns a name, truncated to the length that the log stores.
pub fn short_name(name: &str) -> String {
    truncated(name, MAX_NAME_BYTES).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::TokenSum;

    #[test]
    fn a_line_has_its_time_its_config_and_its_kind() {
        let fields = AuditRecord::Log(LogNotice::Dropped { lines: 3 }).to_line("0badcafe");

        let line = format!("{{{}}}", String::from_utf8(fields).unwrap());
        let line: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(line["kind"], "dropped");
        assert_eq!(line["lines"], 3);
        assert_eq!(line["config"], "0badcafe");
        let time = line["time"].as_str().unwrap();
        assert!(time.parse::<jiff::Timestamp>().is_ok() && time.len() == 24);
    }

    #[test]
    fn each_notice_of_a_log_has_its_kind_and_its_facts() {
        let (bytes, file) = (3, "f".to_owned());
        for (notice, facts) in [
            (
                LogNotice::Repaired { bytes, file },
                "\"kind\":\"repaired\",\"bytes\":3,\"file\":\"f\"",
            ),
            (LogNotice::Recreated, "\"kind\":\"recreated\""),
            (
                LogNotice::Dropped { lines: 3 },
                "\"kind\":\"dropped\",\"lines\":3",
            ),
            (LogNotice::Stop, "\"kind\":\"stop\""),
        ] {
            let line = String::from_utf8(AuditRecord::Log(notice).to_line("")).unwrap();
            let (time, rest) = line.split_once(',').unwrap();
            assert!(time.starts_with("\"time\":\""), "{line}");
            assert_eq!(rest, facts);
        }
    }

    /// `jq -c` writes these as they are expected here, and its version 1.6 no larger number.
    #[test]
    fn jq_keeps_the_bytes_of_texts_and_numbers() {
        let view = ViewRecord::new("ann", "", "a\\\u{7f}\u{1f}\u{85}/\u{7f}", "");
        let line = |record: AuditRecord| String::from_utf8(record.to_line("")).unwrap();

        let texts = line(AuditRecord::Viewed(view));
        let mut tokens = TokenSum::default();
        tokens.set(TokenUsage {
            prompt: Some(u64::MAX),
            ..TokenUsage::default()
        });
        let outcome = OutcomeRecord {
            usage: tokens.total(),
            ..OutcomeRecord::default()
        };
        let counts = line(AuditRecord::Outcome(Box::new(outcome)));

        let session = "\"session\":\"a\\\\\\u007f\\u001f\u{85}/\\u007f\"";
        assert!(texts.contains(session), "{texts}");
        assert!(counts.contains("{\"prompt\":9007199254740991}"), "{counts}");
    }

    #[test]
    fn texts_are_stored_on_request_and_names_are_truncated() {
        let without = TextDigest::new("no");
        let with = TextDigest::with_text("no");

        assert_eq!((without.text, with.text.as_deref()), (None, Some("no")));
        assert_eq!(short_name(&"ä".repeat(1000)).len(), MAX_NAME_BYTES);
    }
}
