//! Hook protocols: how an event is written for a hook, and how its answer is
//! read. Pure.
//!
//! Several agents share the idea of hooks and differ in the small print; each
//! source of hooks says which print it reads. What most of them share is what
//! [`Protocol`] does by itself. Not to be confused with
//! dialects, which are about model APIs.
//! To add a protocol: one file here and one line in [`ALL`].

mod exit_code;
mod gemini;
mod input;
mod llxprt;
mod output_parser;
mod tabnine;
mod terminai;

use std::fmt;

use bytes::Bytes;
use serde_json::value::RawValue;

use crate::event::{Answer, Context, Event, EventName};

/// Every protocol; the first is the default.
pub const ALL: &[&dyn Protocol] = &[
    &gemini::Gemini,
    &terminai::Terminai,
    &tabnine::Tabnine,
    &llxprt::Llxprt,
];

/// One way of talking with a hook.
pub trait Protocol: fmt::Debug + Send + Sync {
    /// Its name in config.
    fn name(&self) -> &'static str;

    /// Whether hooks see all that a request carries, not only its texts.
    fn shows_whole_messages(&self) -> bool {
        false
    }

    /// The document a hook reads: one JSON object. `document` is what the event
    /// was read from, for hooks that asked for it.
    fn write(&self, context: &Context, event: Event<'_>, document: Option<&RawValue>) -> Bytes {
        input::write(context, event, document)
    }

    /// What an ended hook said about `event`.
    fn read(&self, ended: &Ended, event: EventName) -> Answer {
        exit_code::read(ended, event)
    }

    /// Says what an answer means, where it means something else than in most
    /// families. `event` is what the hook was shown.
    fn interpret(&self, _answer: &mut Answer, _event: Event<'_>) {}
}

/// How a hook process ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// By itself or by a signal.
    pub exit: Exit,
    /// All it wrote to standard output.
    pub stdout: Vec<u8>,
    /// All it wrote to standard error.
    pub stderr: Vec<u8>,
}

/// What ended a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Itself, with this code.
    Code(i32),
    /// This signal.
    Signal(i32),
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(signal) => write!(f, "ended by signal {signal}"),
        }
    }
}

/// The protocol named `name`.
pub fn find(name: &str) -> Option<&'static dyn Protocol> {
    ALL.iter().copied().find(|it| it.name() == name)
}

/// The names of all protocols.
pub fn names() -> Vec<&'static str> {
    ALL.iter().map(|it| it.name()).collect()
}
