//! Denials, grouped by rule, decision, reason and tool. They survive the eviction of their calls.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Instant,
};

use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    event::{Action, EventName},
    observe::{
        HourlyCounts,
        trace::{record::reason_text::ReasonText, rule::RulePosition},
        truncated,
    },
    timestamp::{as_time, now_ms, rfc3339_ms},
};

/// Groups that are kept. The one that was denied least recently is evicted.
const MAX_GROUPS: usize = 256;

/// Callers that are listed in a group. Others are counted.
const MAX_CALLERS: usize = 16;

/// Request ids that are kept in a group, the last ones.
const MAX_SAMPLES: usize = 5;

/// Bytes of the name of a rule that are kept. A hook without a name is named by its command.
const MAX_RULE_NAME_BYTES: usize = 256;

/// Bytes of the name of a tool or caller that are kept.
const MAX_NAME_BYTES: usize = 64;

/// Bytes of the shortest name that may have been cut: a character has at most four.
pub(crate) const MIN_CUT_NAME_BYTES: usize = MAX_NAME_BYTES - 3;

/// Bound of one group, with all names and the reason at their longest.
const MAX_GROUP_BYTES: usize = 4 * 1024;

/// One denial of a rule.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Denial<'a> {
    pub(crate) rule: &'a str,
    pub(crate) at: Option<&'a RulePosition>,
    pub(crate) event: EventName,
    pub(crate) action: Action,
    pub(crate) reason: Option<&'a ReasonText>,
    pub(crate) tool: Option<&'a str>,
    /// Name of the caller, or the first digits of its key.
    pub(crate) caller: &'a str,
    pub(crate) request: &'a Arc<str>,
}

/// Denials of one rule by one decision, for one reason, of one tool.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct DenialGroup {
    /// Name of the policy or hook.
    pub rule: Arc<str>,
    /// File and line of the config.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<RulePosition>,
    /// Name of the event.
    #[schema(value_type = String)]
    pub event: EventName,
    /// Decision of the rule: `deny`, `stop` or `ask`.
    pub action: Action,
    /// Reason of the decision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<ReasonText>,
    /// Tool that was denied, if it is a tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<Box<str>>,
    /// Number of denials in the group.
    pub count: u64,
    /// Number of denials in the last 24 hours, counted by the hour.
    pub last_day: u64,
    /// Number of denials by caller: its name, or the first digits of its key; empty without a
    /// credential.
    pub callers: BTreeMap<Box<str>, u64>,
    /// Number of denials of callers that are not listed.
    pub other_callers: u64,
    /// Time of the first denial: RFC 3339 in UTC.
    pub first: String,
    /// Time of the last denial.
    #[serde(rename = "last", serialize_with = "as_time")]
    #[schema(value_type = String)]
    pub last_ms: u64,
    /// Request ids of the last denials, newest first.
    #[schema(value_type = Vec<String>)]
    pub samples: VecDeque<Arc<str>>,
}

/// All groups of denials since the start of the process.
#[derive(Debug, Default)]
pub(crate) struct DenialTable {
    groups: BTreeMap<GroupKey, CountedGroup>,
    evicted: u64,
}

#[derive(Debug)]
struct CountedGroup {
    group: DenialGroup,
    last_day: HourlyCounts,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct GroupKey {
    rule: Arc<str>,
    event: EventName,
    action: Action,
    reason: Option<Box<str>>,
    tool: Option<Box<str>>,
}

impl DenialTable {
    /// Returns the largest size in memory.
    pub(crate) const fn max_bytes() -> usize {
        MAX_GROUPS * MAX_GROUP_BYTES
    }

    pub(crate) fn add(&mut self, denial: Denial<'_>) {
        let key = GroupKey {
            rule: Arc::from(truncated_rule_name(denial.rule)),
            event: denial.event,
            action: denial.action,
            reason: denial.reason.map(|reason| reason.sha256.clone()),
            tool: denial
                .tool
                .map(|tool| Box::from(truncated(tool, MAX_NAME_BYTES))),
        };
        if !self.groups.contains_key(&key) && self.groups.len() >= MAX_GROUPS {
            self.evict_oldest();
        }
        let (now, now_ms) = (Instant::now(), now_ms());
        let entry = self.groups.entry(key);
        let counted = entry.or_insert_with_key(|key| CountedGroup {
            group: DenialGroup::new(key, denial, now_ms),
            last_day: HourlyCounts::default(),
        });
        counted.last_day.add(now);
        counted.group.add(denial, now_ms);
    }

    /// Returns the groups with the most denials of the last 24 hours first, and the number of
    /// evicted groups.
    pub(crate) fn list(&self) -> (Vec<DenialGroup>, u64) {
        let now = Instant::now();
        let groups = self.groups.values().map(|counted| DenialGroup {
            last_day: counted.last_day.sum(now),
            ..counted.group.clone()
        });
        let mut groups: Vec<DenialGroup> = groups.collect();
        groups.sort_by_key(|group| {
            let counts = (Reverse(group.last_day), Reverse(group.count));
            (counts, group.rule.clone())
        });
        (groups, self.evicted)
    }

    fn evict_oldest(&mut self) {
        let oldest = self
            .groups
            .iter()
            .min_by_key(|(_, counted)| counted.group.last_ms);
        if let Some(key) = oldest.map(|(key, _)| key.clone()) {
            self.groups.remove(&key);
            self.evicted += 1;
        }
    }
}

impl DenialGroup {
    /// Removes the text of a reason that may be about content.
    pub(crate) fn remove_content(&mut self) {
        if let Some(reason) = &mut self.reason {
            reason.remove_content();
        }
    }

    fn new(key: &GroupKey, denial: Denial<'_>, now_ms: u64) -> Self {
        Self {
            rule: Arc::clone(&key.rule),
            at: denial.at.cloned(),
            event: denial.event,
            action: denial.action,
            reason: denial.reason.cloned(),
            tool: key.tool.clone(),
            count: 0,
            last_day: 0,
            callers: BTreeMap::new(),
            other_callers: 0,
            first: rfc3339_ms(now_ms),
            last_ms: 0,
            samples: VecDeque::with_capacity(MAX_SAMPLES),
        }
    }

    fn add(&mut self, denial: Denial<'_>, now_ms: u64) {
        self.count += 1;
        self.last_ms = now_ms;
        self.at = denial.at.cloned();
        let caller = truncated(denial.caller, MAX_NAME_BYTES);
        let has_space = self.callers.len() < MAX_CALLERS;
        match self.callers.get_mut(caller) {
            Some(count) => *count += 1,
            None if has_space => {
                self.callers.insert(Box::from(caller), 1);
            }
            None => self.other_callers += 1,
        }
        if self.samples.front() != Some(denial.request) {
            self.samples.truncate(MAX_SAMPLES - 1);
            self.samples.push_front(Arc::clone(denial.request));
        }
    }
}

/// Returns a rule's name, truncated as in groups of denials.
pub fn truncated_rule_name(name: &str) -> &str {
    truncated(name, MAX_RULE_NAME_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn denial<'a>(rule: &'a str, tool: &'a str, request: &'a Arc<str>) -> Denial<'a> {
        Denial {
            rule,
            at: None,
            event: EventName::BeforeTool,
            action: Action::Deny,
            reason: None,
            tool: Some(tool),
            caller: "ci",
            request,
        }
    }

    #[test]
    fn equal_denials_are_one_group_with_its_last_samples() {
        let mut table = DenialTable::default();
        for number in 0..7 {
            table.add(denial("guard", "shell", &number.to_string().into()));
        }
        table.add(denial("guard", "other", &"8".into()));

        let (groups, evicted) = table.list();

        assert_eq!((groups.len(), evicted), (2, 0));
        assert_eq!((groups[0].count, groups[0].callers["ci"]), (7, 7));
        assert_eq!(groups[0].last_day, 7);
        let samples: Vec<&str> = groups[0].samples.iter().map(|id| &**id).collect();
        assert_eq!(samples, ["6", "5", "4", "3", "2"]);
    }

    #[test]
    fn rules_whose_long_names_differ_at_the_end_are_two_groups() {
        let mut table = DenialTable::default();
        let names = ["a", "b"].map(|end| format!("{}{end}", "x".repeat(200)));
        for name in &names {
            table.add(denial(name, "shell", &"1".into()));
        }

        let (groups, _) = table.list();

        let rules: Vec<&str> = groups.iter().map(|group| &*group.rule).collect();
        assert_eq!(rules, names);
    }

    #[test]
    fn the_number_of_groups_and_callers_is_bounded() {
        let mut table = DenialTable::default();
        let request: Arc<str> = "r".into();
        for number in 0..2 * MAX_GROUPS {
            table.add(denial("guard", &number.to_string(), &request));
        }
        for number in 0..40 {
            let caller = number.to_string();
            table.add(Denial {
                caller: &caller,
                ..denial("guard", "last", &request)
            });
        }

        let (groups, evicted) = table.list();

        assert_eq!(groups.len(), MAX_GROUPS);
        assert_eq!(evicted, MAX_GROUPS as u64 + 1);
        assert_eq!(
            (groups[0].callers.len(), groups[0].other_callers),
            (MAX_CALLERS, 24)
        );
    }
}
