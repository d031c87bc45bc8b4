//! `SessionStart`: an agent begins, resumes or clears a session.

use serde::{Deserialize, Serialize};

use super::{Event, EventKind, EventName, HookOutput, Part, Subject, Subjects};

/// How the session started.
#[derive(Debug, Serialize, Deserialize)]
pub struct SessionStart {
    /// `startup`, `resume`, `clear`, or llxprt's `compress`.
    pub source: String,
}

impl EventKind for SessionStart {
    const NAME: EventName = EventName::SessionStart;
    const HONOURS: &'static [Part] = &[
        Part::SystemMessage,
        Part::SuppressOutput,
        Part::AdditionalContext,
    ];
    const SUBJECTS: Subjects = Subjects::Words(&["startup", "resume", "clear", "compress"]);
    /// Context for every model call of the session, as it stands there.
    type Verdict = Option<String>;

    fn as_event(&self) -> Event<'_> {
        Event::SessionStart(self)
    }

    fn subject(&self) -> Subject<'_> {
        Subject::Word(&self.source)
    }

    fn judge(folded: &HookOutput) -> Option<String> {
        folded.rendered_context()
    }
}
