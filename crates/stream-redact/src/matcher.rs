//! Matcher of one pattern in a streamed text: leftmost matches that do not overlap.

use std::ops::Range;

use super::{
    automaton::{State, Step},
    pattern::Pattern,
    window::MaskWindow,
};

/// Attempts shorter than this are not recorded: repeating them is cheap.
const MIN_RECORDED_BYTES: usize = 64;

/// Matcher state of one pattern.
#[derive(Debug, Clone, Default)]
pub(super) struct Matcher {
    /// First offset at which the next match may begin.
    from: usize,
    run: Option<MatchAttempt>,
    trail: FailedStates,
    marks: MarkSearch,
}

/// An attempt to match from one offset.
#[derive(Debug, Clone)]
struct MatchAttempt {
    start: usize,
    /// End of the text that was read.
    at: usize,
    state: State,
    /// The longest match so far.
    found: Option<Range<usize>>,
    /// True if the attempt exceeds the limit of held text: what it reads is masked from
    /// then on, match or not.
    is_endless: bool,
}

impl Matcher {
    /// Returns the first offset at which the next match may begin.
    pub(super) fn from(&self) -> usize {
        self.from
    }

    pub(super) fn is_running(&self) -> bool {
        self.run.is_some()
    }

    /// Returns the first offset that is not decided.
    pub(super) fn undecided(&self) -> Option<usize> {
        let run = self.run.as_ref()?;
        // What an endless attempt has read is decided, but it may continue.
        Some(if run.is_endless {
            run.at - 1
        } else {
            run.start
        })
    }

    /// Starts an attempt at an offset found by the prefilter.
    pub(super) fn begin(&mut self, rule: &Pattern, view: MaskWindow<'_>, at: usize) {
        if let Some(start) = rule.begin(view, self.from, at) {
            self.run = Some(MatchAttempt {
                start,
                at: start,
                state: rule.start(view, start),
                found: None,
                is_endless: false,
            });
        }
    }

    /// Reads to the end of the window. Returns the match, if it is decided; of an
    /// endless attempt, everything it has read.
    pub(super) fn go(
        &mut self,
        rule: &Pattern,
        view: MaskWindow<'_>,
        limit: usize,
    ) -> Option<Range<usize>> {
        let run = self.run.as_mut()?;
        let may_match = self.marks.may_match(rule, view, run.start);
        if !may_match {
            // A later attempt may be near enough to the mark.
            self.trail.clear();
        }
        let ends = !may_match || run.ends(rule, view, limit, &mut self.trail);
        let found = if run.is_endless {
            Some(run.start..view.char_boundary_before(run.at))
        } else {
            run.found.take_if(|_| ends)
        };
        if ends {
            self.from = found.as_ref().map_or(run.start + 1, |range| range.end);
            self.run = None;
        }
        found
    }
}

impl MatchAttempt {
    /// Reads on; returns whether the attempt has ended.
    fn ends(
        &mut self,
        rule: &Pattern,
        view: MaskWindow<'_>,
        limit: usize,
        trail: &mut FailedStates,
    ) -> bool {
        for byte in view.bytes(self.at..view.end()) {
            let (state, step) = rule.automaton.step(self.state, *byte);
            match step {
                Step::Live => (),
                Step::Dead => return true,
                Step::Match | Step::LastMatch => self.matched(rule, view, trail),
            }
            if step == Step::LastMatch {
                return true;
            }
            self.state = state;
            self.at += 1;
            let length = self.at - self.start;
            if length >= limit {
                self.is_endless = true;
            } else if length > MIN_RECORDED_BYTES && trail.crosses(self.at, state) {
                return true;
            }
        }
        let is_settled = !rule.minds_what_follows() && rule.automaton.is_settled(self.state);
        if is_settled || view.is_last() && rule.automaton.matches_at_end(self.state) {
            self.matched(rule, view, trail);
        }
        is_settled || view.is_last()
    }

    /// Records a match that ends here.
    fn matched(&mut self, rule: &Pattern, view: MaskWindow<'_>, trail: &mut FailedStates) {
        if rule.may_accept_a_suffix() {
            trail.clear();
        }
        if !self.is_endless {
            let found = rule.accept(view, self.start..self.at);
            self.found = found.or_else(|| self.found.take());
        }
    }
}

/// Search for the byte that a match has among its first bytes. It reads no byte twice.
#[derive(Debug, Clone, Default)]
struct MarkSearch {
    /// End of the text that was searched.
    read: usize,
    /// The last mark that was found.
    found: Option<usize>,
}

impl MarkSearch {
    /// Returns whether the mark is early enough in the text, or may be in text to come.
    fn may_match(&mut self, rule: &Pattern, view: MaskWindow<'_>, start: usize) -> bool {
        let Some(mark) = rule.early_mark() else {
            return true;
        };
        let is_found = |found: Option<usize>| found.is_some_and(|at| at >= start);
        if is_found(self.found) {
            return true;
        }
        let (from, end) = (self.read.max(start), start + mark.within);
        let bytes = view.bytes(from..end.min(view.end()));
        self.found = memchr::memrchr(mark.byte, bytes).map(|place| from + place);
        self.read = from + bytes.len();
        is_found(self.found) || view.end() < end && !view.is_last()
    }
}

/// States of long attempts by offset, from which no match was accepted. A later attempt that
/// reaches the same state at the same offset reads no further, which keeps the search linear. An
/// attempt that begins behind an accepted match reaches no offset within it.
#[derive(Debug, Clone, Default)]
struct FailedStates {
    from: usize,
    states: Vec<State>,
}

impl FailedStates {
    /// Returns whether an attempt failed from this state and offset before; records it if not.
    fn crosses(&mut self, at: usize, state: State) -> bool {
        let place = at.wrapping_sub(self.from);
        if place > self.states.len() {
            self.clear();
        }
        if self.states.is_empty() {
            self.from = at;
            self.states.push(state);
            return false;
        }
        match self.states.get_mut(place) {
            Some(old) if *old == state => return true,
            Some(old) => *old = state,
            None => self.states.push(state),
        }
        false
    }

    fn clear(&mut self) {
        self.states.clear();
    }
}
