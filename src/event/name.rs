//! Names of the events, in hookgate and in other hook families.

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

/// A family's own name of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventAlias {
    /// Name in the family's settings files and hook inputs.
    pub name: &'static str,
    /// Event of hookgate that the hooks run on.
    pub event: EventName,
    /// Agents for which the hooks run.
    pub agents: AgentScope,
}

/// Agents for which a hook runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentScope {
    /// The agent of the user and its sub-agents.
    #[default]
    All,
    /// The agent of the user.
    Main,
    /// Sub-agents, as far as the agent names them.
    SubAgents,
}

/// Settings files of a hook family that differ from those of gemini-cli.
#[derive(Debug, PartialEq, Eq)]
pub struct SettingsFormat {
    /// Events that hooks can run on.
    pub events: &'static [EventAlias],
    /// Events of the family that a gateway cannot see.
    pub unsupported: &'static [&'static str],
    /// Characters between the names of a matcher without regular expression.
    pub name_separators: &'static [char],
    /// Characters of these names, beside ASCII letters and digits.
    pub name_symbols: &'static [char],
}

impl EventName {
    /// Parses a name on the wire.
    pub fn parse(name: &str) -> Option<Self> {
        let mut all = Self::ALL.iter().copied();
        all.find(|event| event.as_str() == name)
    }

    /// Returns whether the gateway fires it for each model call; agents report all
    /// other events.
    pub const fn is_model_call(self) -> bool {
        matches!(
            self,
            Self::BeforeModel | Self::BeforeToolSelection | Self::AfterModel
        )
    }

    /// Returns whether the gateway can derive it from the history of model calls
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

    /// Returns whether agents do not wait for the outcome (hook protocol, section 1).
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

impl EventAlias {
    /// Returns a name for hooks of these agents.
    pub const fn new(name: &'static str, event: EventName, agents: AgentScope) -> Self {
        Self {
            name,
            event,
            agents,
        }
    }
}

impl AgentScope {
    /// Returns whether hooks of this scope run for an agent.
    pub const fn includes(self, is_sub_agent: bool) -> bool {
        match self {
            Self::All => true,
            Self::Main => !is_sub_agent,
            Self::SubAgents => is_sub_agent,
        }
    }
}
