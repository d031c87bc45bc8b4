//! A regular expression as a DFA that reads one byte at a time and reports whether a
//! match is still possible.

use std::collections::BTreeSet;

use regex_automata::{
    Anchored, MatchKind,
    dfa::{Automaton as _, StartKind, dense},
    nfa::thompson,
    util::{alphabet::Unit, start},
};
use regex_syntax::{
    ParserBuilder,
    hir::{Capture, Hir, HirKind, Look, Repetition},
};

use super::MaskError;

pub(super) use regex_automata::util::primitives::StateID as State;

/// Memory limit of one automaton, and of its construction.
const MAX_AUTOMATON_BYTES: usize = 4 << 20;

/// Maximum nesting depth of a pattern.
const MAX_PATTERN_DEPTH: u32 = 100;

/// Result of reading a byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// A match is still possible.
    Live,
    /// A match ended before this byte; a longer one is possible.
    Match,
    /// A match ended before this byte, and no longer one is possible.
    LastMatch,
    /// No match is possible.
    Dead,
}

/// A regular expression that is anchored at the start of the search.
#[derive(Debug)]
pub(super) struct Automaton {
    dfa: dense::DFA<Vec<u32>>,
    /// Initial state at the start of a text.
    first_start: State,
    /// Initial state after each byte value.
    starts: Vec<State>,
    /// Match states from which no further match is possible, sorted.
    last: Vec<State>,
}

impl Automaton {
    /// Compiles a pattern; `name` is for errors.
    pub(super) fn compile(name: &str, pattern: &str) -> Result<Self, MaskError> {
        let hir = parse(name, pattern)?;
        let config = thompson::Config::new()
            .which_captures(thompson::WhichCaptures::None)
            .nfa_size_limit(Some(MAX_AUTOMATON_BYTES));
        let nfa = thompson::Compiler::new()
            .configure(config)
            .build_from_hir(&hir)
            .map_err(|error| {
                let large = error.size_limit();
                let large = large.map(|_| MaskError::TooLarge(name.to_owned()));
                large.unwrap_or_else(|| unsupported(name, &error))
            })?;
        let config = dense::Config::new()
            .start_kind(StartKind::Anchored)
            .match_kind(MatchKind::LeftmostFirst)
            .dfa_size_limit(Some(MAX_AUTOMATON_BYTES))
            .determinize_size_limit(Some(MAX_AUTOMATON_BYTES));
        let dfa = dense::Builder::new()
            .configure(config.accelerate(false))
            .build_from_nfa(&nfa)
            .map_err(|error| {
                let is_large = error.is_size_limit_exceeded();
                let large = is_large.then(|| MaskError::TooLarge(name.to_owned()));
                large.unwrap_or_else(|| unsupported(name, &error))
            })?;
        Self::of(name, dfa)
    }

    fn of(name: &str, dfa: dense::DFA<Vec<u32>>) -> Result<Self, MaskError> {
        let start = |before| {
            let config = start::Config::new().anchored(Anchored::Yes);
            dfa.start_state(&config.look_behind(before))
                .map_err(|error| unsupported(name, &error))
        };
        let mut automaton = Self {
            first_start: start(None)?,
            starts: (0..=u8::MAX)
                .map(|byte| start(Some(byte)))
                .collect::<Result<_, _>>()?,
            last: Vec::new(),
            dfa,
        };
        automaton.last = automaton.last_matches();
        Ok(automaton)
    }

    /// Returns the initial state after this byte; `None` is the start of the text.
    pub(super) fn start(&self, before: Option<u8>) -> State {
        let after = before.and_then(|byte| self.starts.get(usize::from(byte)));
        after.copied().unwrap_or(self.first_start)
    }

    /// Reads a byte and returns the next state.
    pub(super) fn step(&self, from: State, byte: u8) -> (State, Step) {
        let to = self.dfa.next_state(from, byte);
        if !self.dfa.is_special_state(to) {
            return (to, Step::Live);
        }
        if !self.dfa.is_match_state(to) {
            return (to, Step::Dead);
        }
        match self.last.binary_search(&to) {
            Ok(_) => (to, Step::LastMatch),
            Err(_) => (to, Step::Match),
        }
    }

    /// Returns whether a match ends here if the text ends.
    pub(super) fn matches_at_end(&self, state: State) -> bool {
        self.dfa.is_match_state(self.dfa.next_eoi_state(state))
    }

    /// Returns whether a match ends here whatever byte follows, and no longer one is possible.
    /// It then ends here at the end of the text as well: look-ahead that holds before
    /// every byte holds there.
    pub(super) fn is_settled(&self, state: State) -> bool {
        let mut bytes = 0..=u8::MAX;
        bytes.all(|byte| self.step(state, byte).1 == Step::LastMatch)
    }

    /// Returns the sets of bytes with which a match can begin: the first, the second,
    /// and so on.
    pub(super) fn opening<const N: usize>(&self) -> [BTreeSet<u8>; N] {
        let mut states = self.all_starts();
        let mut has_matched = false;
        [(); N].map(|()| {
            let (mut bytes, mut next) = (BTreeSet::new(), BTreeSet::new());
            for (byte, to, step) in states.iter().flat_map(|state| self.steps(*state)) {
                bytes.insert(byte);
                next.insert(to);
                has_matched |= step != Step::Live;
            }
            states = next;
            // Any byte may follow a match.
            if has_matched {
                bytes.extend(0..=u8::MAX);
            }
            bytes
        })
    }

    /// Returns every transition from a state after which a match is possible.
    fn steps(&self, from: State) -> impl Iterator<Item = (u8, State, Step)> {
        (0..=u8::MAX).filter_map(move |byte| {
            let (to, step) = self.step(from, byte);
            (step != Step::Dead).then_some((byte, to, step))
        })
    }

    fn all_starts(&self) -> BTreeSet<State> {
        let starts = self.starts.iter().copied();
        starts.chain([self.first_start]).collect()
    }

    /// Visits every state and returns the final match states.
    fn last_matches(&self) -> Vec<State> {
        let mut last = Vec::new();
        let mut seen = self.all_starts();
        let mut open: Vec<State> = seen.iter().copied().collect();
        while let Some(state) = open.pop() {
            let classes = self.dfa.byte_classes().representatives(0..=u8::MAX);
            let bytes = classes.filter_map(Unit::as_u8);
            let next = bytes.map(|byte| self.dfa.next_state(state, byte));
            let live: Vec<State> = next.filter(|to| !self.dfa.is_dead_state(*to)).collect();
            let is_match = self.dfa.is_match_state(state);
            if is_match && live.is_empty() && !self.matches_at_end(state) {
                last.push(state);
            }
            open.extend(live.into_iter().filter(|to| seen.insert(*to)));
        }
        last.sort_unstable();
        last
    }
}

fn unsupported(name: &str, error: &dyn std::error::Error) -> MaskError {
    MaskError::Unsupported {
        name: name.to_owned(),
        reason: error.to_string(),
    }
}

fn parse(name: &str, pattern: &str) -> Result<Hir, MaskError> {
    let wrong = |reason: String, at: usize| MaskError::Syntax {
        name: name.to_owned(),
        reason,
        at,
    };
    let parsed = ParserBuilder::new()
        .nest_limit(MAX_PATTERN_DEPTH)
        .build()
        .parse(pattern);
    let hir = parsed.map_err(|error| match error {
        regex_syntax::Error::Parse(cause) => {
            wrong(cause.kind().to_string(), cause.span().start.column)
        }
        regex_syntax::Error::Translate(cause) => {
            wrong(cause.kind().to_string(), cause.span().start.column)
        }
        _ => wrong(error.to_string(), 1),
    })?;
    match hir.properties().minimum_len() {
        Some(0) => Err(MaskError::MatchesNothing(name.to_owned())),
        None => Err(MaskError::NeverMatches(name.to_owned())),
        Some(_) => Ok(with_ascii_words(hir)),
    }
}

/// Replaces Unicode word boundaries by ASCII ones, which are all that a DFA supports.
fn with_ascii_words(hir: Hir) -> Hir {
    let all = |subs: Vec<Hir>| subs.into_iter().map(with_ascii_words).collect();
    match hir.into_kind() {
        HirKind::Empty => Hir::empty(),
        HirKind::Literal(literal) => Hir::literal(literal.0),
        HirKind::Class(class) => Hir::class(class),
        HirKind::Look(look) => Hir::look(ascii(look)),
        HirKind::Repetition(repetition) => Hir::repetition(Repetition {
            sub: Box::new(with_ascii_words(*repetition.sub)),
            ..repetition
        }),
        HirKind::Capture(capture) => Hir::capture(Capture {
            sub: Box::new(with_ascii_words(*capture.sub)),
            ..capture
        }),
        HirKind::Concat(subs) => Hir::concat(all(subs)),
        HirKind::Alternation(subs) => Hir::alternation(all(subs)),
    }
}

fn ascii(look: Look) -> Look {
    match look {
        Look::WordUnicode => Look::WordAscii,
        Look::WordUnicodeNegate => Look::WordAsciiNegate,
        Look::WordStartUnicode => Look::WordStartAscii,
        Look::WordEndUnicode => Look::WordEndAscii,
        Look::WordStartHalfUnicode => Look::WordStartHalfAscii,
        Look::WordEndHalfUnicode => Look::WordEndHalfAscii,
        other => other,
    }
}
