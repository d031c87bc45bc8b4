//! Rules that name a tool.

use super::table::HookTable;
use crate::event::{EventName, MatcherSubject};

impl HookTable {
    /// Returns whether a rule names a tool: a matcher that does not match every tool, or a
    /// policy whose settings list tools.
    pub fn names_tool(&self, tool: &str) -> bool {
        let subject = MatcherSubject::Tool(tool);
        let mut policies = self.all_policies();
        let events = [EventName::BeforeTool, EventName::AfterTool];
        let mut groups = events.iter().flat_map(|event| self.groups(*event));
        policies
            .any(|(_, policy)| policy.policy.names_tool(tool) || policy.matcher.selects(subject))
            || groups.any(|group| group.matcher.selects(subject))
    }
}
