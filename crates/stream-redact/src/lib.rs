//! Secrets in text: found, and replaced by a label.
//!
//! A [`Mask`] holds detectors, and patterns of the operator. Each is an
//! automaton that looks for its leftmost matches; what any of them finds is
//! concealed, under one label where matches overlap. It does not matter whether
//! a text is whole or comes in pieces: the same is released, and of a text that
//! comes in pieces only that is held which may still be part of a match. What
//! may be part of a match for longer than [`MOST_HELD`] bytes is concealed
//! whatever comes.
//!
//! Pure; knows text only: no JSON, no events, no config. To add a detector: one
//! line in [`DETECTORS`].

mod automaton;
mod detectors;
mod label;
mod masker;
mod matcher;
mod pattern;
mod prefilter;
mod prefilter_table;
mod stream;
mod validators;
mod window;

use std::sync::Arc;

use thiserror::Error;

pub use self::{
    detectors::{DETECTORS, Detector},
    label::Style,
    masker::Masker,
};
use self::{label::Labels, pattern::Rule, prefilter_table::Gate, stream::Flow, window::View};

/// How many bytes of a text are held at most.
pub const MOST_HELD: usize = 8 * 1024;

/// What conceals secrets. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Mask {
    rules: Arc<Rules>,
}

/// What all texts of a mask share.
#[derive(Debug)]
struct Rules {
    all: Vec<Rule>,
    gate: Gate,
    labels: Labels,
    limit: usize,
}

/// A text whose secrets were replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Concealed {
    /// The text with labels in it.
    pub text: String,
    /// The names of the detectors and patterns that found something, each once.
    pub detectors: Vec<Arc<str>>,
}

/// Why there is no mask.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum MaskError {
    /// No detector has this name.
    #[error("no detector is named `{0}`; there are {all}", all = names())]
    UnknownDetector(String),
    /// A label could not show this name.
    #[error("`{0}` is no name for a pattern; a name has 1 to 64 of a-z, A-Z, 0-9, `_`, `-`")]
    Name(String),
    /// Two patterns have one name, or a pattern has the name of a detector.
    #[error("`{0}` is the name of another pattern or of a detector")]
    NameTaken(String),
    /// A pattern is no regular expression.
    #[error("pattern `{name}`, character {at}: {reason}")]
    Syntax {
        /// Of the pattern.
        name: String,
        /// What is wrong.
        reason: String,
        /// Where, counted from 1.
        at: usize,
    },
    /// A pattern needs what an automaton cannot do.
    #[error("pattern `{name}` cannot be an automaton: {reason}")]
    Unsupported {
        /// Of the pattern.
        name: String,
        /// What is wrong.
        reason: String,
    },
    /// A pattern matches the empty text, which is everywhere.
    #[error("pattern `{0}` matches nothing at all, so it would match everywhere")]
    MatchesNothing(String),
    /// A pattern matches no text.
    #[error("pattern `{0}` can never match")]
    NeverMatches(String),
    /// A pattern needs too much memory.
    #[error(
        "pattern `{0}` is too large; shorter repetitions, or `[a-z]` for `\\w`, make it smaller"
    )]
    TooLarge(String),
    /// The key of [`Style::Hash`] is empty.
    #[error("the key of the hash is empty")]
    NoKey,
}

fn names() -> String {
    let names: Vec<&str> = DETECTORS.iter().map(|it| it.name).collect();
    names.join(", ")
}

impl Mask {
    /// Compiles detectors, by their names, and patterns: pairs of a name and a
    /// regular expression.
    pub fn new(
        detectors: &[&str],
        patterns: &[(&str, &str)],
        style: &Style,
    ) -> Result<Self, MaskError> {
        Self::holding(MOST_HELD, detectors, patterns, style)
    }

    /// The same, where at most so many bytes of a text are held: more than the
    /// lead of any detector.
    fn holding(
        limit: usize,
        detectors: &[&str],
        patterns: &[(&str, &str)],
        style: &Style,
    ) -> Result<Self, MaskError> {
        let is_known = |name: &str| DETECTORS.iter().any(|it| it.name == name);
        if let Some(name) = detectors.iter().find(|it| !is_known(it)) {
            return Err(MaskError::UnknownDetector((*name).to_owned()));
        }
        let wanted = DETECTORS.iter().filter(|it| detectors.contains(&it.name));
        let mut all: Vec<Rule> = wanted.map(Rule::of_detector).collect::<Result<_, _>>()?;
        for (name, pattern) in patterns {
            check_name(name)?;
            if is_known(name) || all.iter().any(|it| *it.name == **name) {
                return Err(MaskError::NameTaken((*name).to_owned()));
            }
            all.push(Rule::of_pattern(name, pattern)?);
        }
        let rules = Rules {
            gate: Gate::new(&all),
            labels: Labels::new(style)?,
            all,
            limit,
        };
        Ok(Self {
            rules: Arc::new(rules),
        })
    }

    /// Whether there is a secret in a whole text.
    pub fn finds(&self, text: &str) -> bool {
        let mut flow = Flow::default();
        flow.search(&self.rules, View::whole(text));
        flow.has_found()
    }

    /// Replaces every secret in a whole text. `None`: there is none.
    pub fn conceal(&self, text: &str) -> Option<Concealed> {
        let view = View::whole(text);
        let mut flow = Flow::default();
        flow.search(&self.rules, view);
        if !flow.has_found() {
            return None;
        }
        let mut text = String::with_capacity(text.len());
        flow.settle(&self.rules, view, &mut text);
        Some(Concealed {
            text,
            detectors: self.rules.names(flow.rules()).collect(),
        })
    }

    /// Starts a text that comes in pieces.
    pub fn stream(&self) -> Masker {
        Masker::new(self.clone())
    }
}

impl Rules {
    /// What rules are called.
    fn names(&self, rules: impl Iterator<Item = usize>) -> impl Iterator<Item = Arc<str>> {
        rules.filter_map(|it| Some(self.all.get(it)?.name.clone()))
    }
}

fn check_name(name: &str) -> Result<(), MaskError> {
    let is_plain = |it: u8| it.is_ascii_alphanumeric() || matches!(it, b'_' | b'-');
    if name.is_empty() || name.len() > 64 || !name.bytes().all(is_plain) {
        return Err(MaskError::Name(name.to_owned()));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
