//! Share of tool calls that some rule names. Pure.

use std::{cmp::Reverse, collections::BTreeMap};

use serde::{Deserialize, Serialize};

use crate::hook::HookTable;

/// Tools that are listed.
const MAX_LISTED_TOOLS: usize = 20;

/// Tool calls that some rule names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCoverage {
    /// Tool calls of the model in the recording.
    pub tool_calls: u64,
    /// Those whose tool is named by a `tool_guard`, a grant or a matcher.
    pub named: u64,
    /// The tools that no rule names, most called first.
    pub unnamed_tools: Vec<(String, u64)>,
}

impl ToolCoverage {
    /// Returns the coverage of the called tools by the rules of a config.
    pub(super) fn new(called: &BTreeMap<String, u64>, table: &HookTable) -> Self {
        let mut coverage = Self::default();
        for (tool, calls) in called {
            coverage.tool_calls += calls;
            if table.names_tool(tool) {
                coverage.named += calls;
            } else {
                coverage.unnamed_tools.push((tool.clone(), *calls));
            }
        }
        let unnamed = &mut coverage.unnamed_tools;
        unnamed.sort_by_key(|(tool, calls)| (Reverse(*calls), tool.clone()));
        unnamed.truncate(MAX_LISTED_TOOLS);
        coverage
    }

    /// Returns the share of named tool calls in whole percent; 100 without any call.
    pub const fn percent(&self) -> u64 {
        match (self.named * 100).checked_div(self.tool_calls) {
            Some(percent) => percent,
            None => 100,
        }
    }
}
