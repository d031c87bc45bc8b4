//! Translates JavaScript regular expressions without flags into the syntax of
//! `fancy_regex`.
//!
//! The two agree on most constructs and differ in security-relevant details, so
//! nothing is copied: each construct is parsed according to ECMAScript (with its
//! Annex B, which Node follows) and written in the other syntax. Where JavaScript
//! works on UTF-16 code units, the translation works on characters.

mod atom;
mod scan;

use self::scan::{Flags, Repeat, scan_groups};
use super::Error;

/// The line terminators, which `.` does not match without the flag `s`, and which `^`
/// and `$` look for with `m`.
const LINE_ENDS: &str = r"\x{A}\x{D}\x{2028}\x{2029}";
const ANY: &str = r"[\x{0}-\x{10FFFF}]";
const NOTHING: &str = r"[^\x{0}-\x{10FFFF}]";

/// Maximum nesting of groups, safe for the stack.
const MAX_DEPTH: usize = 40;

/// Maximum count in quantifiers, since each count costs memory.
const MAX_REPETITIONS: u64 = 1000;

/// Translates `pattern`. The result has the same numbers of groups.
pub(super) fn translate(pattern: &str) -> Result<String, Error> {
    let chars: Vec<char> = pattern.chars().collect();
    let mut translation = Translation {
        group_names: scan_groups(&chars),
        chars,
        at: 0,
        opened: 0,
        closed: Vec::new(),
        flags: Flags::default(),
        depth: 0,
        in_look_behind: false,
        referenced: Vec::new(),
        unreliable: Vec::new(),
        unsupported: None,
        out: String::new(),
    };
    translation.disjunction()?;
    if translation.peek().is_some() {
        return Err(Error::Invalid("a `)` too many"));
    }
    let mut referenced = translation.referenced.iter();
    if referenced.any(|group| translation.unreliable.contains(group)) {
        translation.give_up("a back-reference to a repeated group or out of a look-around");
    }
    match translation.unsupported {
        Some(what) => Err(Error::Unsupported(what.to_owned())),
        None => Ok(translation.out),
    }
}

fn is_name(name: &str) -> bool {
    let inside = |char: char| char.is_alphanumeric() || "_$".contains(char);
    name.chars().all(inside) && !name.is_empty() && !name.starts_with(char::is_numeric)
}

/// Appends `char` as a literal, valid inside and outside of a class.
pub(super) fn push_literal(char: char, out: &mut String) {
    if char.is_ascii_alphanumeric() {
        out.push(char);
    } else {
        out.extend(char.escape_unicode());
    }
}

/// The state of translating a pattern.
#[derive(Debug)]
struct Translation {
    chars: Vec<char>,
    /// The index of the next character.
    at: usize,
    /// One entry for each capturing group of the whole pattern.
    group_names: Vec<Option<String>>,
    /// Number of capturing groups opened so far.
    opened: usize,
    /// Numbers of the capturing groups closed so far.
    closed: Vec<usize>,
    flags: Flags,
    depth: usize,
    in_look_behind: bool,
    /// Numbers of the groups that back-references refer to.
    referenced: Vec<usize>,
    /// Numbers of the groups whose captures differ from JavaScript, which resets the
    /// captures of a repeated group and treats look-arounds differently.
    unreliable: Vec<usize>,
    /// The first construct without a translation. Parsing continues after it, since the
    /// rest may be invalid.
    unsupported: Option<&'static str>,
    out: String,
}

/// The quantifiers that may follow a term.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Term {
    /// Any quantifier is allowed.
    Atom,
    /// A quantifier, by Annex B, which makes the look-ahead optional or has no effect.
    LookAhead,
    /// No quantifier is allowed.
    Assertion,
}

impl Translation {
    fn disjunction(&mut self) -> Result<(), Error> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(Error::Unsupported("too deeply nested".to_owned()));
        }
        while let Some(char) = self.peek() {
            match char {
                ')' => break,
                '|' => {
                    self.at += 1;
                    self.out.push('|');
                }
                _ => self.term()?,
            }
        }
        self.depth -= 1;
        Ok(())
    }

    fn term(&mut self) -> Result<(), Error> {
        let start = self.out.len();
        let opened_before = self.opened;
        let repeat = self.repeat_at(self.at);
        let term = match self.take() {
            _ if repeat.is_some() => return Err(Error::Invalid("nothing to repeat")),
            Some('(') => self.group()?,
            Some('[') => self.class()?,
            Some('\\') => self.escape()?,
            Some('.') if self.flags.dot_all => self.push(ANY, Term::Atom),
            Some('.') => self.push(&format!("[^{LINE_ENDS}]"), Term::Atom),
            Some('^') if self.flags.multi_line => {
                self.look_around(&format!(r"(?:\A|(?<=[{LINE_ENDS}]))"), Term::Assertion)
            }
            Some('^') => self.push(r"\A", Term::Assertion),
            Some('$') if self.flags.multi_line => {
                self.look_around(&format!(r"(?:\z|(?=[{LINE_ENDS}]))"), Term::Assertion)
            }
            Some('$') => self.push(r"\z", Term::Assertion),
            Some(char) => {
                push_literal(char, &mut self.out);
                Term::Atom
            }
            None => return Ok(()),
        };
        if self.repeat_at(self.at).is_some() || self.in_look_behind || term == Term::LookAhead {
            self.unreliable.extend(opened_before + 1..=self.opened);
        }
        self.quantifier(start, term)
    }

    /// Translates the quantifier of the term that was written from `start` on.
    fn quantifier(&mut self, start: usize, term: Term) -> Result<(), Error> {
        let Some(Repeat { min, max, end }) = self.repeat_at(self.at) else {
            return Ok(());
        };
        self.at = end;
        let is_lazy = self.eat("?");
        if max.is_some_and(|max| max < min) {
            return Err(Error::Invalid("a range out of order"));
        }
        if min.max(max.unwrap_or_default()) > MAX_REPETITIONS {
            self.give_up("a count above 1000");
        }
        match term {
            Term::Assertion => return Err(Error::Invalid("nothing to repeat")),
            Term::LookAhead if min == 0 => {
                self.out.insert_str(start, "(?:|");
                self.out.push(')');
            }
            Term::LookAhead => (),
            Term::Atom => {
                let max = max.map(|max| max.to_string()).unwrap_or_default();
                let lazy = if is_lazy { "?" } else { "" };
                let quantifier = format!("{{{min},{max}}}{lazy}");
                self.out.push_str(&quantifier);
            }
        }
        Ok(())
    }

    /// Translates a group, from after its `(`.
    fn group(&mut self) -> Result<Term, Error> {
        let outer_flags = self.flags;
        let outer_look_behind = self.in_look_behind;
        let mut number = None;
        let term = if self.eat("?:") {
            self.push("(?:", Term::Atom)
        } else if self.eat("?=") {
            self.look_around("(?=", Term::LookAhead)
        } else if self.eat("?!") {
            self.look_around("(?!", Term::LookAhead)
        } else if self.eat("?<=") {
            let term = self.look_around("(?<=", Term::Assertion);
            self.in_look_behind = true;
            term
        } else if self.eat("?<!") {
            let term = self.look_around("(?<!", Term::Assertion);
            self.in_look_behind = true;
            term
        } else if self.peek() == Some('?') && !self.eat("?<") {
            self.at += 1;
            self.modifiers()?
        } else {
            self.opened += 1;
            number = Some(self.opened);
            self.group_name()?;
            self.push("(", Term::Atom)
        };
        self.disjunction()?;
        if term == Term::Atom && number.is_none() && self.repeat_at(self.at + 1).is_some() {
            // `fancy_regex` does not repeat groups that are empty or only look around,
            // unless they contain an alternative.
            self.out.push('|');
            self.out.push_str(NOTHING);
        }
        if !self.eat(")") {
            return Err(Error::Invalid("a group without an end"));
        }
        self.closed.extend(number);
        self.flags = outer_flags;
        self.in_look_behind = outer_look_behind;
        Ok(self.push(")", term))
    }

    /// Skips the rest of `?<name>`, if the group that was just opened has a name.
    fn group_name(&mut self) -> Result<(), Error> {
        let name = self.group_names.get(self.opened - 1);
        let Some(name) = name.and_then(Option::as_deref) else {
            return Ok(());
        };
        if !is_name(name) {
            return Err(Error::Invalid("a bad name of a group"));
        }
        self.at += name.chars().count() + ">".len();
        Ok(())
    }

    /// Translates `i-ms:`, the flags of a group.
    fn modifiers(&mut self) -> Result<Term, Error> {
        let mut seen = String::new();
        let mut wanted = true;
        let mut case = "";
        loop {
            match self.take() {
                Some(':') if !seen.is_empty() => break,
                Some('-') if wanted => wanted = false,
                Some(flag @ ('i' | 'm' | 's')) if !seen.contains(flag) => {
                    seen.push(flag);
                    match (flag, wanted) {
                        ('m', _) => self.flags.multi_line = wanted,
                        ('s', _) => self.flags.dot_all = wanted,
                        (_, true) => case = "i",
                        (_, false) => case = "-i",
                    }
                }
                _ => return Err(Error::Invalid("an unknown kind of group")),
            }
        }
        Ok(self.push(&format!("(?{case}:"), Term::Atom))
    }

    /// Appends a look-around. `fancy_regex` does not support it in a look-behind.
    fn look_around(&mut self, text: &str, term: Term) -> Term {
        if self.in_look_behind {
            self.give_up("an assertion in a look-behind");
        }
        self.push(text, term)
    }

    fn give_up(&mut self, what: &'static str) {
        self.unsupported.get_or_insert(what);
    }

    fn push(&mut self, text: &str, term: Term) -> Term {
        self.out.push_str(text);
        term
    }

    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn take(&mut self) -> Option<char> {
        let char = self.peek();
        self.at += usize::from(char.is_some());
        char
    }

    fn eat(&mut self, text: &str) -> bool {
        let rest = self.chars.get(self.at..).unwrap_or_default();
        let found = text.chars().zip(rest).filter(|(a, b)| a == *b).count() == text.len();
        if found {
            self.at += text.len();
        }
        found
    }

    fn repeat_at(&self, at: usize) -> Option<Repeat> {
        Repeat::read(&self.chars, at)
    }
}
