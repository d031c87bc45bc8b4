//! Merges the matches of all patterns into masked text.

use std::collections::{BTreeSet, HashSet};

use super::{
    PatternSet,
    label::Label,
    search::{Found, PatternSearch},
    window::{MAX_CONTEXT_BYTES, MaskWindow},
};

/// Masking state of texts that may be one text.
#[derive(Debug, Clone, Default)]
pub(super) struct MaskStream {
    /// Search of the texts as one.
    joined: PatternSearch,
    /// Search of the last text by itself, while it may find something else.
    own: Option<PatternSearch>,
    /// Indexes of the patterns that matched.
    matched: BTreeSet<usize>,
    /// Matches that are not written yet.
    found: Vec<Found>,
    /// Everything before this offset is written, or is part of `pending`.
    done: usize,
    /// The secret that ends at `done` and may continue.
    pending: Option<PendingMask>,
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
        let joined = self.joined.search(rules, view);
        let own = self.own.as_mut().map(|own| own.search(rules, view));
        self.note(joined.into_iter().chain(own.into_iter().flatten()));
    }

    /// Ends a text where the window ends. What follows is searched by itself, and as the rest of
    /// this text.
    pub(super) fn end_text(&mut self, rules: &PatternSet, view: MaskWindow<'_>) {
        let mut own = self.own.take().unwrap_or_else(|| self.joined.clone());
        self.note(own.search(rules, view.up_to(view.end())));
        self.own = Some(PatternSearch::starting_at(view.end()));
    }

    fn note(&mut self, found: impl IntoIterator<Item = Found>) {
        for found in found {
            self.matched.insert(found.rule);
            self.found.push(found);
        }
    }

    /// Returns whether the text up to an offset and the text behind it have a secret together that
    /// neither has by itself; `None` if text to come decides it.
    pub(super) fn joins(
        mut self,
        rules: &PatternSet,
        view: MaskWindow<'_>,
        at: usize,
    ) -> Option<bool> {
        let mut first = self.own.unwrap_or_else(|| self.joined.clone());
        let second = PatternSearch::starting_at(at).search(rules, view);
        let alone = first.search(rules, view.up_to(at)).into_iter();
        let alone: HashSet<Found> = alone.chain(second).collect();
        let joined = self.joined.search(rules, view);
        let joins = joined.iter().any(|found| !alone.contains(found));
        (joins || self.joined.undecided(rules, view) >= at).then_some(joins)
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
        self.matched.iter().copied()
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
        self.drop_own(undecided, view);
        self.write(rules, view, undecided, out);
        undecided.min(self.done)
    }

    /// Ends a text where the window ends, and writes all of it.
    pub(super) fn release(&mut self, rules: &PatternSet, view: MaskWindow<'_>, out: &mut String) {
        self.end_text(rules, view);
        self.write(rules, view, view.end(), out);
    }

    /// Writes the text up to an offset before which it is decided.
    fn write(
        &mut self,
        rules: &PatternSet,
        view: MaskWindow<'_>,
        undecided: usize,
        out: &mut String,
    ) {
        self.found
            .sort_unstable_by_key(|found| (found.secret.start, found.rule));
        let ready = self
            .found
            .partition_point(|found| found.secret.start < undecided);
        let later = self.found.split_off(ready);
        for found in std::mem::replace(&mut self.found, later) {
            // Of a released text, a secret may be found that was written.
            if found.secret.end > self.done {
                self.pending(rules, view, &found, out);
            }
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
    }

    /// Returns the first offset at which an unknown secret may begin.
    fn undecided(&self, rules: &PatternSet, view: MaskWindow<'_>) -> usize {
        let searches = self.own.iter().chain([&self.joined]);
        let undecided = searches.map(|search| search.undecided(rules, view));
        undecided.min().unwrap_or_else(|| view.end())
    }

    /// Ends the search of the last text by itself where nothing before the text is context of what
    /// follows.
    fn drop_own(&mut self, undecided: usize, view: MaskWindow<'_>) {
        let is_far = |own: &mut PatternSearch| view.end() >= own.start() + MAX_CONTEXT_BYTES;
        if undecided == view.end() {
            self.own.take_if(is_far);
        }
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
