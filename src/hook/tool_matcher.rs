//! Matchers compared with all names that a family of hooks has for a tool.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::{
    config::Matcher,
    event::{EventKind, MatcherSubject},
    protocol::{ArgumentNames, ShownArguments, ToolAliases, ToolFamily, ToolNames},
};

/// A matcher of hooks of one family.
#[derive(Debug, Clone)]
pub struct ToolMatcher {
    matcher: Matcher,
    family: ToolFamily,
    names: Arc<ToolNames>,
}

impl ToolMatcher {
    /// Returns a matcher for hooks of `family`.
    pub const fn new(matcher: Matcher, family: ToolFamily, names: Arc<ToolNames>) -> Self {
        Self {
            matcher,
            family,
            names,
        }
    }

    /// Checks whether it matches `subject`, and not every subject.
    pub fn selects(&self, subject: MatcherSubject<'_>) -> bool {
        !self.matcher.is_all() && self.matches(subject)
    }

    /// Checks whether hooks run on `subject`: on a tool if the matcher matches its name on
    /// the wire or any name that the family has for it.
    pub fn matches(&self, subject: MatcherSubject<'_>) -> bool {
        let MatcherSubject::Tool(wire) = subject else {
            return self.matcher.matches(subject);
        };
        self.matcher.is_all()
            || self.matches_name(wire)
            || self
                .aliases(wire)
                .names
                .iter()
                .any(|name| self.matches_name(name))
    }

    /// Returns the name that hooks receive for the tool `wire`: the first name of the
    /// family that the matcher matches. `None` if hooks receive the name as it is: the tool
    /// is the family's own and has a name that matches, or the matcher is written for the name
    /// on the wire.
    fn shown_name(&self, wire: &str) -> Option<String> {
        let aliases = self.aliases(wire);
        let matches = |name: &str| self.matcher.is_all() || self.matches_name(name);
        if aliases.is_own {
            if self.family == ToolFamily::Codex {
                // Codex gives its hooks other arguments than its model does.
                return Some(wire.to_owned());
            }
            if matches(wire) {
                return None;
            }
        }
        aliases.names.into_iter().find(|name| matches(name))
    }

    /// Returns the event of a tool call with the names of the family, and its arguments; `None` if
    /// hooks receive the call as it is.
    pub fn view<E: EventKind>(&self, event: &E) -> Option<(E, ShownArguments)> {
        let MatcherSubject::Tool(wire) = event.subject() else {
            return None;
        };
        let name = self.shown_name(wire);
        let arguments = self.arguments(wire, name.as_deref(), event.tool_input()?)?;
        let name = name.as_deref().unwrap_or(wire);
        let shown = event.with_tool(name, arguments.input.clone())?;
        Some((shown, arguments))
    }

    /// Returns the arguments that hooks receive for the tool `wire` with the name `shown`; `None`
    /// if they receive the call as it is.
    fn arguments(
        &self,
        wire: &str,
        shown: Option<&str>,
        input: &Map<String, Value>,
    ) -> Option<ShownArguments> {
        let is_renamed = shown.is_some();
        let has_two_paths = matches!(self.family, ToolFamily::Gemini | ToolFamily::Llxprt);
        let mut arguments = match self.aliases(wire).arguments {
            ArgumentNames::Unknown => {
                return is_renamed.then(|| ShownArguments::unchanged(input));
            }
            // Other arguments have the names that hooks of the family read.
            ArgumentNames::Known | ArgumentNames::Editor if !is_renamed => {
                has_two_paths.then(|| ShownArguments::with_file_path(input))?
            }
            ArgumentNames::Known => ShownArguments::new(input),
            ArgumentNames::Editor => ShownArguments::of_editor(input),
        };
        if self.family == ToolFamily::Llxprt {
            arguments.show_absolute_path();
        }
        Some(arguments)
    }

    fn aliases(&self, wire: &str) -> ToolAliases {
        self.names.of(self.family, wire)
    }

    fn matches_name(&self, name: &str) -> bool {
        self.matcher.matches(MatcherSubject::Tool(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matcher(text: &str, family: ToolFamily) -> ToolMatcher {
        ToolMatcher::new(Matcher::parse(text).0, family, Arc::default())
    }

    #[test]
    fn a_matcher_matches_any_name_of_the_tool() {
        let claude = matcher("^(?:Edit|Write)$", ToolFamily::Claude);
        for wire in ["Write", "write_file", "replace", "apply_patch"] {
            assert!(claude.matches(MatcherSubject::Tool(wire)), "{wire}");
        }
        assert!(!claude.matches(MatcherSubject::Tool("exec_command")));
        assert_eq!(claude.shown_name("write_file").as_deref(), Some("Write"));
        assert_eq!(claude.shown_name("Write"), None);
        assert_eq!(claude.shown_name("MultiEdit").as_deref(), Some("Edit"));
    }

    #[test]
    fn a_matcher_for_a_name_on_the_wire_shows_that_name() {
        let written_for_claude = matcher("Bash", ToolFamily::Gemini);
        assert!(written_for_claude.matches(MatcherSubject::Tool("Bash")));
        assert_eq!(written_for_claude.shown_name("Bash"), None);
        let all = matcher("*", ToolFamily::Gemini);
        assert_eq!(all.shown_name("Bash").as_deref(), Some("run_shell_command"));
    }

    #[test]
    fn keywords_have_no_tool_names() {
        let resumed = matcher("resume", ToolFamily::Claude);
        assert!(resumed.matches(MatcherSubject::Keyword("resume")));
        assert!(!resumed.matches(MatcherSubject::Keyword("Bash")));
    }
}
