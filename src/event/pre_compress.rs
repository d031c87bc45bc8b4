//! `PreCompress`: an agent is about to shorten its history.

use serde::{Deserialize, Serialize};

use super::{Event, EventKind, EventName, HookOutput, Part, Subject, Subjects};

/// Why the history is shortened.
#[derive(Debug, Serialize, Deserialize)]
pub struct PreCompress {
    /// `manual` or `auto`.
    pub trigger: String,
}

impl EventKind for PreCompress {
    const NAME: EventName = EventName::PreCompress;
    const HONOURS: &'static [Part] = &[Part::SystemMessage, Part::SuppressOutput];
    const SUBJECTS: Subjects = Subjects::Words(&["manual", "auto"]);
    /// Nobody waits for it.
    type Verdict = Option<()>;

    fn as_event(&self) -> Event<'_> {
        Event::PreCompress(self)
    }

    fn subject(&self) -> Subject<'_> {
        Subject::Word(&self.trigger)
    }

    fn judge(_folded: &HookOutput) -> Option<()> {
        None
    }
}
