//! A compiled detector or pattern.

use std::{collections::BTreeSet, ops::Range, sync::Arc};

use super::{
    MaskError,
    automaton::{Automaton, State, Step},
    detectors::{Class, Detector, EarlyMark, Edges},
    validators::{self, Candidate, Validator},
    window::MaskWindow,
};

/// A compiled detector or pattern, with its conditions on adjacent bytes.
#[derive(Debug)]
pub(super) struct Pattern {
    pub(super) name: Arc<str>,
    pub(super) automaton: Automaton,
    edges: Edges,
    check: Option<Validator>,
}

impl Pattern {
    pub(super) fn from_detector(detector: &Detector) -> Result<Self, MaskError> {
        Ok(Self {
            name: detector.name.into(),
            automaton: Automaton::compile(detector.name, detector.rule)?,
            edges: detector.edges,
            check: detector.check,
        })
    }

    pub(super) fn from_pattern(name: &str, pattern: &str) -> Result<Self, MaskError> {
        Ok(Self {
            name: name.into(),
            automaton: Automaton::compile(name, pattern)?,
            edges: Edges::OPEN,
            check: None,
        })
    }

    /// Returns the sets of bytes with which a match begins: the first, the second, and
    /// so on.
    pub(super) fn opening<const N: usize>(&self) -> [BTreeSet<u8>; N] {
        let Some(lead) = self.edges.lead else {
            return self.automaton.opening();
        };
        let mut bytes = [(); N].map(|()| (0..=u8::MAX).collect());
        if let Some(first) = bytes.first_mut() {
            *first = [lead.mark].into();
        }
        bytes
    }

    /// Returns whether the first byte of a match may follow this one, unless an escape ends with
    /// it.
    pub(super) fn may_follow(&self, byte: u8) -> bool {
        match self.edges.lead {
            Some(lead) => (lead.body)(byte),
            None => self.edges.before.is_none_or(|class| !class(byte)),
        }
    }

    /// Returns whether the first byte of a match may follow an escape that ends with this byte.
    pub(super) fn may_follow_escape(&self, byte: u8) -> bool {
        let is_end = self.edges.lead.is_none() && validators::end_of_escape(byte);
        is_end || self.may_follow(byte)
    }

    pub(super) fn early_mark(&self) -> Option<EarlyMark> {
        self.edges.early_mark
    }

    /// Returns the start of a match found at this offset, not before `from`.
    pub(super) fn begin(&self, view: MaskWindow<'_>, from: usize, at: usize) -> Option<usize> {
        match self.edges.lead {
            Some(_) => self.lead(view, from, at),
            None => (from <= at && self.may_begin(view, at)).then_some(at),
        }
    }

    /// Returns the earliest start of a match whose lead is read up to this offset.
    pub(super) fn lead(&self, view: MaskWindow<'_>, from: usize, at: usize) -> Option<usize> {
        let lead = self.edges.lead?;
        let earliest = at.saturating_sub(lead.most).max(from);
        let before = view.bytes(earliest..at).iter().rev();
        let body = before.take_while(|byte| (lead.body)(**byte)).count();
        let mut places = at - body..at;
        places.find(|place| self.is_live(view, *place) && self.may_begin(view, *place))
    }

    /// Returns whether a match may begin with the byte at this offset.
    fn is_live(&self, view: MaskWindow<'_>, at: usize) -> bool {
        let step = |byte| self.automaton.step(self.start(view, at), byte).1;
        view.byte(at).is_some_and(|byte| step(byte) != Step::Dead)
    }

    pub(super) fn may_begin(&self, view: MaskWindow<'_>, at: usize) -> bool {
        let Some(class) = self.edges.before else {
            return true;
        };
        let before = view.before(at);
        let is_apart = before.last().is_none_or(|byte| !class(*byte));
        // At an ambiguous `%20`, both starts are tried, because a stream may be cut there. Only a
        // match with a lead has its first bytes in memory.
        let is_inside =
            || self.edges.lead.is_some() && validators::splits_escape(before, view.after(at));
        (is_apart || validators::ends_escape(before)) && !is_inside()
    }

    /// Returns the initial state of a match at this offset.
    pub(super) fn start(&self, view: MaskWindow<'_>, at: usize) -> State {
        self.automaton.start(view.before(at).last().copied())
    }

    /// Returns the secret within a match; `None` if validation fails.
    pub(super) fn accept(
        &self,
        view: MaskWindow<'_>,
        matched: Range<usize>,
    ) -> Option<Range<usize>> {
        let candidate = Candidate {
            before: view.before(matched.start),
            text: view.bytes(matched.clone()),
            after: view.byte(matched.end),
        };
        let is_apart = !candidate
            .after
            .is_some_and(|byte| self.edges.after.is_some_and(|class| class(byte)));
        let has = |class: Class| candidate.text.iter().any(|byte| class(*byte));
        if !is_apart || !self.edges.required.is_none_or(has) {
            return None;
        }
        let begin = self.check.map_or(Some(0), |check| check(candidate))?;
        Some(matched.start + begin..matched.end)
    }

    /// Returns whether a match may be accepted although one is refused that begins earlier and
    /// ends at the same offset.
    pub(super) fn may_accept_a_suffix(&self) -> bool {
        self.check.is_some()
    }

    /// Returns whether the byte after a match may reject it.
    pub(super) fn minds_what_follows(&self) -> bool {
        self.edges.after.is_some()
    }
}
