//! JavaScript regular expressions, without flags, in the spelling of our engine.
//! Pure.
//!
//! Both agree on most things and differ in dangerous corners, so nothing is
//! passed through: each construct is read as ECMAScript reads it (with its
//! Annex B, which Node follows) and written anew. Where JavaScript works on
//! UTF-16 units, this works on characters.

mod atom;
mod scan;

use self::scan::{Flags, Repeat, scan_groups};

/// Why an expression has no translation.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// JavaScript refuses it too.
    Invalid(&'static str),
    /// JavaScript knows what it means, our engine does not.
    Unsupported(String),
}

/// What `.` matches without the flag `s`, and `^` and `$` look for with `m`.
const LINE_ENDS: &str = r"\x{A}\x{D}\x{2028}\x{2029}";
const ANY: &str = r"[\x{0}-\x{10FFFF}]";
const NOTHING: &str = r"[^\x{0}-\x{10FFFF}]";

/// Groups nest no deeper than this, so that no stack overflows.
const MAX_DEPTH: usize = 40;

/// Counts in quantifiers are no higher: each count costs memory.
const MAX_COUNT: u64 = 1000;

/// Writes `pattern` anew. The result numbers its groups as `pattern` does.
pub(super) fn translate(pattern: &str) -> Result<String, Fault> {
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
        return Err(Fault::Invalid("a `)` too many"));
    }
    let mut referenced = translation.referenced.iter();
    if referenced.any(|it| translation.unreliable.contains(it)) {
        translation.give_up("a back-reference to a repeated group or out of a look-around");
    }
    match translation.unsupported {
        Some(what) => Err(Fault::Unsupported(what.to_owned())),
        None => Ok(translation.out),
    }
}

fn is_name(name: &str) -> bool {
    let inside = |it: char| it.is_alphanumeric() || "_$".contains(it);
    name.chars().all(inside) && !name.is_empty() && !name.starts_with(char::is_numeric)
}

/// Writes `char` so that it means itself, inside a class and outside.
pub(super) fn push_literal(char: char, out: &mut String) {
    if char.is_ascii_alphanumeric() {
        out.push(char);
    } else {
        out.extend(char.escape_unicode());
    }
}

/// A pattern on its way.
#[derive(Debug)]
struct Translation {
    chars: Vec<char>,
    /// The next of `chars`.
    at: usize,
    /// One entry for each capturing group of the whole pattern.
    group_names: Vec<Option<String>>,
    /// How many capturing groups have begun.
    opened: usize,
    /// The numbers of those that have ended.
    closed: Vec<usize>,
    flags: Flags,
    depth: usize,
    in_look_behind: bool,
    /// The groups that back-references name.
    referenced: Vec<usize>,
    /// Groups that find something else here than in JavaScript, which forgets
    /// what a group found when it is repeated, and looks around in its own way.
    unreliable: Vec<usize>,
    /// The first construct without a translation. Reading goes on after it, since
    /// the rest may be no JavaScript.
    unsupported: Option<&'static str>,
    out: String,
}

/// What may follow a term.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Term {
    /// A quantifier.
    Atom,
    /// A quantifier, by Annex B: it makes the look-ahead optional or does nothing.
    LookAhead,
    /// No quantifier.
    Assertion,
}

impl Translation {
    fn disjunction(&mut self) -> Result<(), Fault> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(Fault::Unsupported("too deeply nested".to_owned()));
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

    fn term(&mut self) -> Result<(), Fault> {
        let start = self.out.len();
        let opened_before = self.opened;
        let repeat = self.repeat_at(self.at);
        let term = match self.take() {
            _ if repeat.is_some() => return Err(Fault::Invalid("nothing to repeat")),
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

    /// What follows the term that was written from `start` on.
    fn quantifier(&mut self, start: usize, term: Term) -> Result<(), Fault> {
        let Some(Repeat { min, max, end }) = self.repeat_at(self.at) else {
            return Ok(());
        };
        self.at = end;
        let is_lazy = self.eat("?");
        if max.is_some_and(|max| max < min) {
            return Err(Fault::Invalid("a range out of order"));
        }
        if min.max(max.unwrap_or_default()) > MAX_COUNT {
            self.give_up("a count above 1000");
        }
        match term {
            Term::Assertion => return Err(Fault::Invalid("nothing to repeat")),
            Term::LookAhead if min == 0 => {
                self.out.insert_str(start, "(?:|");
                self.out.push(')');
            }
            Term::LookAhead => (),
            Term::Atom => {
                let max = max.map(|it| it.to_string()).unwrap_or_default();
                let lazy = if is_lazy { "?" } else { "" };
                let quantifier = format!("{{{min},{max}}}{lazy}");
                self.out.push_str(&quantifier);
            }
        }
        Ok(())
    }

    /// A group, from after its `(`.
    fn group(&mut self) -> Result<Term, Fault> {
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
            // Our engine refuses to repeat what is empty or only looks around,
            // unless there is a choice.
            self.out.push('|');
            self.out.push_str(NOTHING);
        }
        if !self.eat(")") {
            return Err(Fault::Invalid("a group without an end"));
        }
        self.closed.extend(number);
        self.flags = outer_flags;
        self.in_look_behind = outer_look_behind;
        Ok(self.push(")", term))
    }

    /// The rest of `?<name>`, if the group that was just opened has a name.
    fn group_name(&mut self) -> Result<(), Fault> {
        let name = self.group_names.get(self.opened - 1);
        let Some(name) = name.and_then(Option::as_deref) else {
            return Ok(());
        };
        if !is_name(name) {
            return Err(Fault::Invalid("a bad name of a group"));
        }
        self.at += name.chars().count() + ">".len();
        Ok(())
    }

    /// `i-ms:`, the flags of a group.
    fn modifiers(&mut self) -> Result<Term, Fault> {
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
                _ => return Err(Fault::Invalid("an unknown kind of group")),
            }
        }
        Ok(self.push(&format!("(?{case}:"), Term::Atom))
    }

    /// Writes what looks around. Inside a look-behind, our engine gets that wrong.
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
