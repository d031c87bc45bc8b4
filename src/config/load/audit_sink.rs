//! Checks of the HTTP sink of the audit log.

use http::header;

use super::{loader::Loader, pointers::matching, upstreams::is_unencrypted};
use crate::config::{
    schema::did_you_mean::did_you_mean,
    settings::audit::{
        AuditSettings,
        sink::{AuditSinkSettings, MASKABLE_FIELDS},
    },
};

/// The texts of bodies, which are prompts and answers.
const BODY_TEXTS: [&str; 4] = [
    "/received/text",
    "/sent/text",
    "/response/text",
    "/input/text",
];

/// The smallest useful size of a request, in bytes.
const MIN_BATCH_BYTES: usize = 1024;

impl Loader {
    pub(super) fn check_audit_sink(&mut self) {
        self.check_headers("/audit/sink/headers/*");
        let Some(sink) = self.section::<AuditSinkSettings>("/audit/sink") else {
            return;
        };
        for name in ["drop", "hash"] {
            for pointer in matching(&self.value, &format!("/audit/sink/mask/{name}/*")) {
                self.check_mask(&sink, name, &pointer);
            }
        }
        let has_header = |name: &String| name.eq_ignore_ascii_case(header::AUTHORIZATION.as_str());
        let sets_authorization = sink.headers.keys().any(has_header);
        if sink.token.is_some() && sets_authorization {
            let message = "`token` and `headers.authorization` set the same header";
            self.problem("/audit/sink/token", message);
        }
        if is_unencrypted(&sink.url) {
            self.warning(
                "/audit/sink/url",
                "lines are sent without encryption; use https",
            );
        }
        if sink.batch.bytes < MIN_BATCH_BYTES {
            self.problem(
                "/audit/sink/batch/bytes",
                "`audit.sink.batch.bytes` must be at least 1KiB",
            );
        }
        let audit: Option<AuditSettings> = self.section("/audit");
        let drops = |text: &str| sink.mask.drop.iter().any(|field| text.starts_with(field));
        if audit.is_some_and(|audit| audit.content) && !BODY_TEXTS.iter().all(|text| drops(text)) {
            let texts = BODY_TEXTS.join(", ");
            let message = format!(
                "`audit.content` is true, so prompts and answers are sent; `mask: {{ drop: [{texts}] }}` leaves them out"
            );
            self.warning("/audit/sink", message);
        }
    }

    /// Checks that a masked field is one that lines have, and that it is listed once.
    fn check_mask(&mut self, sink: &AuditSinkSettings, list: &str, pointer: &str) {
        let field = self.value.pointer(pointer).and_then(|field| field.as_str());
        let field = field.unwrap_or_default().to_owned();
        let listed = sink.mask.drop.iter().chain(&sink.mask.hash);
        if !MASKABLE_FIELDS.contains(&field.as_str()) {
            let hint = did_you_mean(&field, MASKABLE_FIELDS.iter().copied());
            let message = format!("lines have no field `{field}` that can be masked{hint}");
            self.problem(pointer, message);
        } else if listed.filter(|other| **other == field).count() > 1 {
            self.problem(pointer, format!("`{field}` is listed twice"));
        } else if list == "hash" && sink.mask.drop.iter().any(|drop| is_inside(&field, drop)) {
            self.problem(
                pointer,
                format!("`{field}` is dropped with what contains it"),
            );
        }
    }
}

fn is_inside(field: &str, outer: &str) -> bool {
    field
        .strip_prefix(outer)
        .is_some_and(|rest| rest.starts_with('/'))
}
