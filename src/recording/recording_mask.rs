//! Mask of a recording: of texts, of targets, and of names of sessions.

use std::hash::{BuildHasher, RandomState};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use stream_redact::Mask;

use super::{format::RecordedExchange, request_head::SESSION_HEADERS};
use crate::observe::redaction::Redactor;

/// Ends of the path and of parameters in a target.
const PART_ENDS: [char; 2] = ['?', '&'];

/// Characters that a masked part of a target has only in percent-encoding: a gateway refuses
/// parameters with others.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'=')
    .remove(b'/')
    .remove(b':')
    .remove(b'@')
    .remove(b'[')
    .remove(b']');

/// Masks texts, and replaces names of sessions that contain a secret by labels.
#[derive(Debug)]
pub(super) struct RecordingMask {
    mask: Mask,
    /// Hash function of the labels. Its key is random, so that names cannot be guessed.
    hasher: RandomState,
}

impl RecordingMask {
    pub(super) fn new(mask: Mask) -> Self {
        Self {
            mask,
            hasher: RandomState::new(),
        }
    }

    /// Returns a redactor that has found nothing.
    pub(super) const fn redactor(&self) -> Redactor<'_> {
        Redactor::new(&self.mask)
    }

    /// Masks the head and the session of a request.
    pub(super) fn mask_head(&self, line: &mut RecordedExchange, redactor: &mut Redactor<'_>) {
        let prefixed = line.target.strip_prefix("/s/");
        match prefixed.and_then(|rest| rest.split_once('/')) {
            Some((name, rest)) => {
                let (mut name, mut rest) = (name.to_owned(), rest.to_owned());
                self.mask_name(&mut name, redactor);
                mask_target(&mut rest, redactor);
                line.target = format!("/s/{name}/{rest}");
            }
            None => mask_target(&mut line.target, redactor),
        }
        if let Some(session) = &mut line.session {
            self.mask_name(&mut session.id, redactor);
            if let Some(parent) = &mut session.parent {
                self.mask_name(parent, redactor);
            }
        }
        for (header, value) in &mut line.headers {
            if SESSION_HEADERS.contains(&header.as_str()) {
                self.mask_name(value, redactor);
            } else {
                redactor.text(value);
            }
        }
    }

    /// Replaces a name with a secret by a label, which is a name, too, and the same for equal
    /// names: a replay finds the session by it.
    fn mask_name(&self, name: &mut String, redactor: &mut Redactor<'_>) {
        let mut masked = name.clone();
        mask_target(&mut masked, redactor);
        if masked != *name {
            *name = format!("masked-{:016x}", self.hasher.hash_one(&*name));
        }
    }
}

/// Masks a path with its query, or a part of it, also where a secret is percent-encoded.
pub(super) fn mask_target(target: &mut String, redactor: &mut Redactor<'_>) {
    let parts = target.split_inclusive(PART_ENDS).map(|part| {
        let content = part.trim_end_matches(PART_ENDS);
        match masked_encoding(content, redactor) {
            Some(masked) => part.replacen(content, &masked, 1),
            None => part.to_owned(),
        }
    });
    let mut masked: String = parts.collect();
    redactor.text(&mut masked);
    *target = masked;
}

/// Returns a part of a target in which a percent-encoded secret is masked, if it has one.
fn masked_encoding(part: &str, redactor: &mut Redactor<'_>) -> Option<String> {
    let decoded = percent_decode_str(part).decode_utf8_lossy();
    let mut masked = decoded.to_string();
    if masked != part {
        redactor.text(&mut masked);
    }
    (masked != decoded).then(|| utf8_percent_encode(&masked, ESCAPED).to_string())
}
