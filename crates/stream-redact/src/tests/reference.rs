//! Reference implementation of masks: tries every rule at every position.

use std::ops::Range;

use crate::{PatternSet, automaton::Step, pattern::Pattern, window::MaskWindow};

/// Masked text of the reference implementation.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ReferenceOutput {
    /// Text that is decided, with labels.
    pub(super) text: String,
    /// Number of bytes that are decided.
    pub(super) decided: usize,
}

/// Masks a text with every rule, one after the other.
pub(super) fn reference_mask(rules: &PatternSet, text: &str, is_last: bool) -> ReferenceOutput {
    let view = MaskWindow::new(text, 0, is_last);
    let (mut found, mut undecided) = (Vec::new(), text.len());
    for (at, rule) in rules.all.iter().enumerate() {
        let (secrets, open) = search(rule, view, rules.limit);
        found.extend(
            secrets
                .into_iter()
                .map(|secret| (secret.start, at, secret.end)),
        );
        undecided = undecided.min(open);
    }
    found.sort_unstable();
    let mut output = ReferenceOutput {
        text: String::new(),
        decided: 0,
    };
    for (start, rule, end) in found.into_iter().filter(|(start, ..)| *start < undecided) {
        if start >= output.decided {
            output.text += part(text, output.decided..start);
            output.text += &["[REDACTED:", &*rules.all[rule].name, "]"].concat();
        }
        output.decided = output.decided.max(end);
    }
    if output.decided < undecided {
        output.text += part(text, output.decided..undecided);
        output.decided = undecided;
    }
    output
}

/// Returns the secrets that one rule finds, and the position from which it is undecided.
fn search(rule: &Pattern, view: MaskWindow<'_>, limit: usize) -> (Vec<Range<usize>>, usize) {
    let (mut secrets, mut at) = (Vec::new(), 0);
    while at < view.end() {
        if !rule.may_begin(view, at) {
            at += 1;
            continue;
        }
        match attempt(rule, view, at, limit) {
            Attempt::Nothing => at += 1,
            Attempt::Found(secret) => {
                at = secret.end;
                secrets.push(secret);
            }
            Attempt::Open => return (secrets, at),
            Attempt::TooLong => {
                secrets.push(at..view.end());
                return (secrets, view.end() - 1);
            }
        }
    }
    (secrets, view.end())
}

enum Attempt {
    Nothing,
    Found(Range<usize>),
    Open,
    TooLong,
}

fn attempt(rule: &Pattern, view: MaskWindow<'_>, start: usize, limit: usize) -> Attempt {
    let (mut state, mut found) = (rule.start(view, start), None);
    let is_long = |at: usize| at - start >= limit;
    let end = |at: usize, found: Option<Range<usize>>| match found {
        _ if is_long(at) => Attempt::Found(start..view.char_boundary_before(at)),
        Some(found) => Attempt::Found(found),
        None => Attempt::Nothing,
    };
    if !has_early_mark(rule, view, start) {
        return Attempt::Nothing;
    }
    for at in start..view.end() {
        let (next, step) = rule.automaton.step(state, view.byte(at).unwrap());
        if matches!(step, Step::Match | Step::LastMatch) {
            found = rule.accept(view, start..at).or(found);
        }
        if matches!(step, Step::Dead | Step::LastMatch) {
            return end(at, found);
        }
        state = next;
    }
    let at = view.end();
    let is_settled = !rule.minds_what_follows() && rule.automaton.is_settled(state);
    if is_settled || view.is_last() && rule.automaton.matches_at_end(state) {
        found = rule.accept(view, start..at).or(found);
    }
    match is_settled || view.is_last() {
        true => end(at, found),
        false if is_long(at) => Attempt::TooLong,
        false => Attempt::Open,
    }
}

/// Returns false if no later text can have the mark of the rule among its first bytes.
fn has_early_mark(rule: &Pattern, view: MaskWindow<'_>, start: usize) -> bool {
    rule.early_mark().is_none_or(|mark| {
        let first: Vec<_> = view.after(start).iter().take(mark.within).collect();
        first.contains(&&mark.byte) || first.len() < mark.within && !view.is_last()
    })
}

pub(super) fn part(text: &str, range: Range<usize>) -> &str {
    text.get(range).unwrap()
}
