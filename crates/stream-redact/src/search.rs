//! Search for the matches of all patterns in one text.

use std::ops::Range;

use super::{
    PatternSet,
    matcher::Matcher,
    pattern_bits::{self, Bits},
    window::MaskWindow,
};

/// Search of one text.
#[derive(Debug, Clone, Default)]
pub(super) struct PatternSearch {
    /// Offset at which the text begins.
    start: usize,
    /// One per pattern; empty until the first pattern may match.
    matchers: Vec<Matcher>,
    /// End of the text that the prefilter has searched.
    looked: usize,
    found: Vec<Found>,
}

/// A match of the pattern with the index `rule`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Found {
    pub(super) secret: Range<usize>,
    pub(super) rule: usize,
}

impl PatternSearch {
    /// Creates a search of the text that begins at an offset.
    pub(super) fn starting_at(start: usize) -> Self {
        Self {
            start,
            looked: start,
            ..Self::default()
        }
    }

    /// Returns the offset at which the text begins.
    pub(super) const fn start(&self) -> usize {
        self.start
    }

    /// Searches new text. Returns the secrets that are complete.
    pub(super) fn search(&mut self, rules: &PatternSet, view: MaskWindow<'_>) -> Vec<Found> {
        let view = view.starting_at(self.start);
        for rule in 0..self.matchers.len() {
            if !self.is_running(rule) {
                continue;
            }
            self.go(rules, view, rule);
            if !self.is_running(rule) {
                // Another match may begin within the text it has read.
                let from = self.matchers.get(rule).map_or(0, Matcher::from);
                self.search_range(rules, view, from..self.looked, pattern_bits::bit(rule));
            }
        }
        self.search_range(rules, view, self.looked..view.end(), pattern_bits::ALL);
        self.looked = view.end();
        std::mem::take(&mut self.found)
    }

    /// Returns the first offset at which an unknown secret may begin.
    pub(super) fn undecided(&self, rules: &PatternSet, view: MaskWindow<'_>) -> usize {
        let (view, end) = (view.starting_at(self.start), view.end());
        if view.is_last() {
            return end;
        }
        let mut first = end;
        for (at, rule) in rules.all.iter().enumerate() {
            let matcher = self.matchers.get(at);
            let running = matcher.and_then(Matcher::undecided);
            let from = matcher.map_or(0, Matcher::from);
            let lead = || rule.lead(view, from, end);
            first = first.min(running.or_else(lead).unwrap_or(end));
        }
        first
    }

    /// Runs the wanted patterns wherever they may begin in a range.
    fn search_range(
        &mut self,
        rules: &PatternSet,
        view: MaskWindow<'_>,
        mut range: Range<usize>,
        wanted: Bits,
    ) {
        while let Some((at, hits)) = rules.first_bytes.next(view, range.clone(), wanted) {
            if self.matchers.is_empty() {
                self.matchers.resize_with(rules.all.len(), Matcher::default);
            }
            for rule in pattern_bits::rules(hits, rules.all.len()) {
                self.begin(rules, view, rule, at);
            }
            range.start = at + 1;
        }
    }

    fn begin(&mut self, rules: &PatternSet, view: MaskWindow<'_>, rule: usize, at: usize) {
        let (Some(pattern), Some(matcher)) = (rules.all.get(rule), self.matchers.get_mut(rule))
        else {
            return;
        };
        if !matcher.is_running() {
            matcher.begin(pattern, view, at);
            self.go(rules, view, rule);
        }
    }

    fn go(&mut self, rules: &PatternSet, view: MaskWindow<'_>, rule: usize) {
        let (Some(pattern), Some(matcher)) = (rules.all.get(rule), self.matchers.get_mut(rule))
        else {
            return;
        };
        if let Some(secret) = matcher.go(pattern, view, rules.limit) {
            self.found.push(Found { secret, rule });
        }
    }

    fn is_running(&self, rule: usize) -> bool {
        self.matchers.get(rule).is_some_and(Matcher::is_running)
    }
}
