//! Names of the events.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Passes every event to a macro, in the order of a turn.
macro_rules! for_each_event {
    ($macro:ident) => {
        $macro! {
            SessionStart,
            BeforeAgent,
            BeforeModel,
            BeforeToolSelection,
            AfterModel,
            BeforeTool,
            AfterTool,
            AfterAgent,
            PreCompress,
            Notification,
            SessionEnd,
        }
    };
}
pub(super) use for_each_event;

macro_rules! event_names {
    ($($name:ident),+ $(,)?) => {
        /// Name of an event, as on the wire and in the config.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum EventName {
            $(#[doc = concat!("See [`", stringify!($name), "`](super::", stringify!($name), ").")] $name,)+
        }

        impl EventName {
            /// Every event, in the order of a turn.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// Returns the name on the wire.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)+ }
            }
        }
    };
}

for_each_event!(event_names);

impl EventName {
    /// Parses a name on the wire.
    pub fn parse(name: &str) -> Option<Self> {
        let mut all = Self::ALL.iter().copied();
        all.find(|event| event.as_str() == name)
    }

    /// Whether the gateway fires it for each model call; agents report all
    /// other events.
    pub const fn is_model_call(self) -> bool {
        matches!(
            self,
            Self::BeforeModel | Self::BeforeToolSelection | Self::AfterModel
        )
    }

    /// Whether the gateway can derive it from the history of model calls
    /// (`events.derive`).
    pub const fn is_derivable(self) -> bool {
        matches!(
            self,
            Self::SessionStart
                | Self::BeforeAgent
                | Self::AfterTool
                | Self::BeforeTool
                | Self::AfterAgent
                | Self::SessionEnd
        )
    }

    /// Whether agents do not wait for the outcome (hook protocol, section 1).
    pub const fn is_advisory(self) -> bool {
        matches!(
            self,
            Self::SessionEnd | Self::PreCompress | Self::Notification
        )
    }
}

impl fmt::Display for EventName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
