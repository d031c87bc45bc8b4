//! The search of one rule through a text that comes in pieces: leftmost matches
//! that do not overlap, each as long as its rule wants it.

use std::ops::Range;

use super::{
    automaton::{State, Step},
    pattern::Rule,
    window::View,
};

/// Runs shorter than this leave no trail: they cost little anyway.
const SHORT: usize = 64;

/// How far the search of one rule has come.
#[derive(Debug, Default)]
pub(super) struct Search {
    /// Where the next match may begin.
    from: usize,
    run: Option<Run>,
    trail: Trail,
    /// Whether anything was found.
    pub(super) has_found: bool,
}

/// One attempt to match, from one place on.
#[derive(Debug)]
struct Run {
    start: usize,
    /// The place it has read up to.
    at: usize,
    state: State,
    /// The longest match so far.
    found: Option<Range<usize>>,
    /// Whether the run is too long to be held: what it reads is a match then,
    /// whatever comes.
    is_endless: bool,
}

impl Search {
    /// Where the next match may begin.
    pub(super) fn from(&self) -> usize {
        self.from
    }

    pub(super) fn is_running(&self) -> bool {
        self.run.is_some()
    }

    /// The first place that is not decided yet.
    pub(super) fn undecided(&self) -> Option<usize> {
        let run = self.run.as_ref()?;
        // What an endless run has read is decided, but that it may go on is not.
        Some(if run.is_endless {
            run.at - 1
        } else {
            run.start
        })
    }

    /// Starts to match where a place gives a match away.
    pub(super) fn begin(&mut self, rule: &Rule, view: View<'_>, at: usize) {
        if let Some(start) = rule.begin(view, self.from, at) {
            self.run = Some(Run {
                start,
                at: start,
                state: rule.start(view, start),
                found: None,
                is_endless: false,
            });
        }
    }

    /// Reads on as far as the text goes. What was found, if anything was: of an
    /// endless run, all that it has read.
    pub(super) fn go(&mut self, rule: &Rule, view: View<'_>, limit: usize) -> Option<Range<usize>> {
        let run = self.run.as_mut()?;
        let ends = run.ends(rule, view, limit, &mut self.trail);
        let found = if run.is_endless {
            Some(run.start..view.floor(run.at))
        } else {
            run.found.take_if(|_| ends)
        };
        if ends {
            self.from = found.as_ref().map_or(run.start + 1, |it| it.end);
            self.run = None;
        }
        self.has_found |= found.is_some();
        found
    }
}

impl Run {
    /// Reads on. Whether it ended: then no longer match can come.
    fn ends(&mut self, rule: &Rule, view: View<'_>, limit: usize, trail: &mut Trail) -> bool {
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
            } else if length > SHORT && trail.crosses(self.at, state) {
                return true;
            }
        }
        let is_settled = !rule.minds_what_follows() && rule.automaton.is_settled(self.state);
        if is_settled || view.is_last() && rule.automaton.matches_at_end(self.state) {
            self.matched(rule, view, trail);
        }
        is_settled || view.is_last()
    }

    /// A match ends where it has read up to.
    fn matched(&mut self, rule: &Rule, view: View<'_>, trail: &mut Trail) {
        // What this run found, others may find too.
        trail.forget();
        if !self.is_endless {
            let found = rule.accept(view, self.start..self.at);
            self.found = found.or_else(|| self.found.take());
        }
    }
}

/// Where long runs have been that found nothing any more, and in which state.
/// A later run that comes to the same place in the same state finds nothing
/// from there either, so that no text is read over and over.
#[derive(Debug, Default)]
struct Trail {
    from: usize,
    states: Vec<State>,
}

impl Trail {
    /// Whether a run crosses the trail here. If not, its state is noted.
    fn crosses(&mut self, at: usize, state: State) -> bool {
        let place = at.wrapping_sub(self.from);
        if place > self.states.len() {
            self.forget();
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

    fn forget(&mut self) {
        self.states.clear();
    }
}
