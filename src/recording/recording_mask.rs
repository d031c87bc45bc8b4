//! Mask of a recording: of texts, and of names of sessions.

use std::hash::{BuildHasher, RandomState};

use stream_redact::Mask;

use super::{format::RecordedExchange, request_head::SESSION_HEADERS};
use crate::observe::redaction::Redactor;

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
                redactor.text(&mut rest);
                line.target = format!("/s/{name}/{rest}");
            }
            None => redactor.text(&mut line.target),
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
        redactor.text(&mut masked);
        if masked != *name {
            *name = format!("masked-{:016x}", self.hasher.hash_one(&*name));
        }
    }
}
