//! Merges the matches of all patterns into masked text.

use std::ops::Range;

use super::{
    PatternSet,
    label::Label,
    matcher::Matcher,
    pattern_bits::{self, Bits},
    window::MaskWindow,
};

/// Masking state of one text.
#[derive(Debug, Clone, Default)]
pub(super) struct MaskStream {
    /// One per pattern; empty until the first pattern may match.
    searches: Vec<Matcher>,
    /// End of the text that the prefilter has searched.
    looked: usize,
    /// Matches that are not written yet.
    found: Vec<Found>,
    /// Everything before this offset is written, or is part of `pending`.
    done: usize,
    /// The secret that ends at `done` and may continue.
    pending: Option<PendingMask>,
}

/// A match of the pattern with the index `rule`.
#[derive(Debug, Clone)]
pub(super) struct Found {
    pub(super) secret: Range<usize>,
    pub(super) rule: usize,
}

/// Overlapping secrets, under the label of the first one.
#[derive(Debug, Clone)]
struct PendingMask {
    end: usize,
    label: Label,
}

impl MaskStream {
    /// Searches new text for secrets.
    pub(super) fn search(&mut self, rules: &PatternSet, view: MaskWindow<'_>) {
        for rule in 0..self.searches.len() {
            if !self.is_running(rule) {
                continue;
            }
            self.go(rules, view, rule);
            if !self.is_running(rule) {
                // Another match may begin within the text it has read.
                let from = self.searches.get(rule).map_or(0, Matcher::from);
                self.search_range(rules, view, from..self.looked, pattern_bits::bit(rule));
            }
        }
        self.search_range(rules, view, self.looked..view.end(), pattern_bits::ALL);
        self.looked = view.end();
    }

    /// Returns the matches that are not written yet.
    pub(super) fn into_found(self) -> Vec<Found> {
        self.found
    }

    /// Returns the offset before which everything is written or masked.
    pub(super) fn done(&self) -> usize {
        self.done
    }

    /// Returns whether a label is pending although its secret was consumed.
    pub(super) fn has_pending_label(&self) -> bool {
        let pending = self.pending.as_ref();
        pending.is_some_and(|mask| matches!(mask.label, Label::Hashed { .. }))
    }

    /// Returns the indices of patterns that matched.
    pub(super) fn rules(&self) -> impl Iterator<Item = usize> {
        let searches = self.searches.iter().enumerate();
        searches.filter_map(|(rule, search)| search.has_found.then_some(rule))
    }

    /// Writes the text that is decided. Returns the offset before which text is needed
    /// as context only.
    pub(super) fn settle(
        &mut self,
        rules: &PatternSet,
        view: MaskWindow<'_>,
        out: &mut String,
    ) -> usize {
        let undecided = self.undecided(rules, view);
        self.found
            .sort_unstable_by_key(|found| (found.secret.start, found.rule));
        let ready = self
            .found
            .partition_point(|found| found.secret.start < undecided);
        let later = self.found.split_off(ready);
        for found in std::mem::replace(&mut self.found, later) {
            self.pending(rules, view, &found, out);
        }
        let ends = self
            .pending
            .as_ref()
            .is_none_or(|mask| mask.end <= undecided);
        if ends {
            self.end_mask(view, out);
            self.pass(view, undecided, out);
        } else {
            self.swallow(view);
        }
        undecided.min(self.done)
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
            if self.searches.is_empty() {
                self.searches.resize_with(rules.all.len(), Matcher::default);
            }
            for rule in pattern_bits::rules(hits, rules.all.len()) {
                self.begin(rules, view, rule, at);
            }
            range.start = at + 1;
        }
    }

    fn begin(&mut self, rules: &PatternSet, view: MaskWindow<'_>, rule: usize, at: usize) {
        let (Some(pattern), Some(search)) = (rules.all.get(rule), self.searches.get_mut(rule))
        else {
            return;
        };
        if !search.is_running() {
            search.begin(pattern, view, at);
            self.go(rules, view, rule);
        }
    }

    fn go(&mut self, rules: &PatternSet, view: MaskWindow<'_>, rule: usize) {
        let (Some(pattern), Some(search)) = (rules.all.get(rule), self.searches.get_mut(rule))
        else {
            return;
        };
        if let Some(secret) = search.go(pattern, view, rules.limit) {
            self.found.push(Found { secret, rule });
        }
    }

    fn is_running(&self, rule: usize) -> bool {
        self.searches.get(rule).is_some_and(Matcher::is_running)
    }

    /// Returns the first offset at which an unknown secret may begin.
    fn undecided(&self, rules: &PatternSet, view: MaskWindow<'_>) -> usize {
        let end = view.end();
        if view.is_last() {
            return end;
        }
        let mut first = end;
        for (at, rule) in rules.all.iter().enumerate() {
            let search = self.searches.get(at);
            let running = search.and_then(Matcher::undecided);
            let from = search.map_or(0, Matcher::from);
            let lead = || rule.lead(view, from, end);
            first = first.min(running.or_else(lead).unwrap_or(end));
        }
        first
    }

    /// Adds a secret to the pending mask, or starts a new one.
    fn pending(
        &mut self,
        rules: &PatternSet,
        view: MaskWindow<'_>,
        found: &Found,
        out: &mut String,
    ) {
        match &mut self.pending {
            Some(pending) if found.secret.start < pending.end => {
                pending.end = pending.end.max(found.secret.end);
            }
            _ => {
                self.end_mask(view, out);
                self.pass(view, found.secret.start, out);
                let name = rules
                    .all
                    .get(found.rule)
                    .map_or("", |pattern| &pattern.name);
                self.pending = Some(PendingMask {
                    end: found.secret.end,
                    label: rules.labels.open(name, out),
                });
            }
        }
    }

    /// Ends the pending mask and writes its label.
    fn end_mask(&mut self, view: MaskWindow<'_>, out: &mut String) {
        self.swallow(view);
        if let Some(pending) = self.pending.take() {
            pending.label.close(out);
        }
    }

    /// Consumes the text of the pending mask.
    fn swallow(&mut self, view: MaskWindow<'_>) {
        if let Some(pending) = &mut self.pending {
            pending.label.take(view.bytes(self.done..pending.end));
            self.done = pending.end;
        }
    }

    /// Writes text up to an offset.
    fn pass(&mut self, view: MaskWindow<'_>, to: usize, out: &mut String) {
        out.push_str(view.text(self.done..to));
        self.done = self.done.max(to);
    }
}
