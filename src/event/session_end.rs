//! `SessionEnd`: a session is over.

use serde::{Deserialize, Serialize};

use super::{Event, EventKind, EventName, HookOutput, Part, Subject, Subjects};

/// How the session ended.
#[derive(Debug, Serialize, Deserialize)]
pub struct SessionEnd {
    /// `exit`, `clear`, `logout`, `prompt_input_exit` or `other`.
    pub reason: String,
}

impl EventKind for SessionEnd {
    const NAME: EventName = EventName::SessionEnd;
    const HONOURS: &'static [Part] = &[Part::SystemMessage, Part::SuppressOutput];
    const SUBJECTS: Subjects =
        Subjects::Words(&["exit", "clear", "logout", "prompt_input_exit", "other"]);
    /// Nobody waits for it.
    type Verdict = Option<()>;

    fn as_event(&self) -> Event<'_> {
        Event::SessionEnd(self)
    }

    fn subject(&self) -> Subject<'_> {
        Subject::Word(&self.reason)
    }

    fn judge(_folded: &HookOutput) -> Option<()> {
        None
    }
}
