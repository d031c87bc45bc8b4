//! The summary of hooks' runs for the response headers.

use std::collections::BTreeSet;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::{event::ExchangeEvent, exchange_summary::ExchangeSummary};
use crate::event::HookRun;

/// Characters that headers contain unescaped.
const UNESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'/');

/// Maximum length of a header value in bytes. An entry of a list that does not fit is left out; a
/// text is cut behind a character.
const MAX_HEADER_BYTES: usize = 4096;

/// Values of the response headers; empty ones are omitted.
#[derive(Debug)]
pub struct HeaderValues {
    /// Action of policies and hooks.
    pub action: &'static str,
    /// Id of the session.
    pub session_id: String,
    /// `name;ms` of each run.
    pub hooks: String,
    /// Messages of hooks for the user, percent-encoded.
    pub system_message: String,
}

/// Runs and messages of hooks, collected until the headers are sent.
#[derive(Debug, Default)]
pub(super) struct HeaderSummary {
    hooks: String,
    messages: Vec<String>,
    /// Policies that inspected the response. Of a stream, each is listed once, and again for
    /// each edit.
    inspected: BTreeSet<String>,
    is_taken: bool,
}

impl HeaderSummary {
    /// Collects an event. A stream has thousands of them after its headers are sent.
    pub(super) fn apply(&mut self, event: &ExchangeEvent<'_>) {
        if self.is_taken {
            return;
        }
        match event {
            ExchangeEvent::EventDecided(decision) | ExchangeEvent::ChunkDecided(decision) => {
                for run in decision.runs {
                    self.push(run);
                }
                if self.messages.iter().map(String::len).sum::<usize>() <= MAX_HEADER_BYTES {
                    self.messages.extend(decision.output.system_message.clone());
                }
            }
            ExchangeEvent::PoliciesRan(runs) => {
                for run in *runs {
                    if self.inspected.insert(run.name.clone()) || run.edited {
                        self.push(run);
                    }
                }
            }
            _ => (),
        }
    }

    /// Takes what was collected. Events after that are ignored.
    pub(super) fn take(&mut self, exchange: &ExchangeSummary) -> HeaderValues {
        self.is_taken = true;
        HeaderValues {
            action: exchange.action.as_str(),
            session_id: exchange.session_id.clone(),
            hooks: std::mem::take(&mut self.hooks),
            system_message: header_text(&std::mem::take(&mut self.messages).join("\n")),
        }
    }

    fn push(&mut self, run: &HookRun) {
        let separator = if self.hooks.is_empty() { "" } else { ", " };
        let name = utf8_percent_encode(&run.name, UNESCAPED);
        let entry = format!("{separator}{name};{}", run.elapsed.as_millis());
        if self.hooks.len() + entry.len() <= MAX_HEADER_BYTES {
            self.hooks.push_str(&entry);
        }
    }
}

/// Returns the begin of a text that fits into a header, percent-encoded.
fn header_text(text: &str) -> String {
    let mut header = String::new();
    for char in text.split_inclusive(|_| true) {
        let char = utf8_percent_encode(char, UNESCAPED).to_string();
        if header.len() + char.len() > MAX_HEADER_BYTES {
            break;
        }
        header.push_str(&char);
    }
    header
}
