//! Escapes and character classes.

use std::ops::RangeInclusive;

use super::{ANY, NOTHING, Term, Translation, push_literal, scan::read_number};
use crate::Error;

const DIGITS: &str = "0-9";
const WORD: &str = "0-9A-Z_a-z";
const SPACES: &str = r"\x{9}-\x{D}\x{20}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000}\x{FEFF}";

const NO_NAME: Error = Error::Invalid("a reference to no group");

/// The characters that an escape or a plain character matches.
#[derive(Debug, Clone, Copy)]
enum Atom {
    Char(char),
    /// The characters of a set.
    In(&'static str),
    /// All characters except those of a set.
    NotIn(&'static str),
}

impl Translation {
    /// Translates an escape outside of a class, from after its `\`.
    pub(super) fn escape(&mut self) -> Result<Term, Error> {
        match self.peek() {
            Some(boundary @ ('b' | 'B')) => {
                self.at += 1;
                let (same, other) = if boundary == 'b' {
                    ("!", "=")
                } else {
                    ("=", "!")
                };
                let text =
                    format!("(?:(?<=[{WORD}])(?{same}[{WORD}])|(?<![{WORD}])(?{other}[{WORD}]))");
                return Ok(self.look_around(&text, Term::Assertion));
            }
            Some('1'..='9') => {
                let (number, end) = read_number(&self.chars, self.at);
                let number = number.and_then(|digits| usize::try_from(digits).ok());
                if let Some(number) = number.filter(|number| *number <= self.group_names.len()) {
                    self.at = end;
                    return Ok(self.back_reference(&[number]));
                }
            }
            Some('k') if self.has_names() => {
                self.at += 1;
                let numbers = self.named_groups()?;
                return Ok(self.back_reference(&numbers));
            }
            _ => (),
        }
        let text = match self.character_escape()? {
            Atom::Char(char) => {
                push_literal(char, &mut self.out);
                return Ok(Term::Atom);
            }
            Atom::In(set) => format!("[{set}]"),
            Atom::NotIn(set) => format!("[^{set}]"),
        };
        Ok(self.push(&text, Term::Atom))
    }

    /// Translates a class, from after its `[`.
    pub(super) fn class(&mut self) -> Result<Term, Error> {
        let negated = self.eat("^");
        let mut items = String::new();
        while !self.eat("]") {
            let first = self.class_atom()?;
            let is_range = self.peek() == Some('-') && self.chars.get(self.at + 1) != Some(&']');
            if !is_range {
                push_item(first, &mut items);
                continue;
            }
            self.at += 1;
            let last = self.class_atom()?;
            match (first, last) {
                (Atom::Char(first), Atom::Char(last)) if first > last => {
                    return Err(Error::Invalid("a range out of order"));
                }
                (Atom::Char(_), Atom::Char(_)) => {
                    push_item(first, &mut items);
                    items.push('-');
                    push_item(last, &mut items);
                }
                // With a set at one end it is not a range but a list of all three.
                _ => [first, Atom::Char('-'), last]
                    .into_iter()
                    .for_each(|item| push_item(item, &mut items)),
            }
        }
        let text = match (items.as_str(), negated) {
            ("", false) => NOTHING.to_owned(),
            ("", true) => ANY.to_owned(),
            (items, false) => format!("[{items}]"),
            (items, true) => format!("[^{items}]"),
        };
        Ok(self.push(&text, Term::Atom))
    }

    fn class_atom(&mut self) -> Result<Atom, Error> {
        match self.take() {
            None => Err(Error::Invalid("a class without an end")),
            Some('\\') if self.eat("b") => Ok(Atom::Char('\u{8}')),
            Some('\\') => {
                let control = self.chars.get(self.at + 1).copied().unwrap_or_default();
                if self.peek() == Some('c') && (control.is_ascii_digit() || control == '_') {
                    self.at += 2;
                    return Ok(Atom::Char(control_character(control)));
                }
                self.character_escape()
            }
            Some(char) => Ok(Atom::Char(char)),
        }
    }

    /// Parses an escape that has the same meaning inside and outside of a class.
    fn character_escape(&mut self) -> Result<Atom, Error> {
        let Some(char) = self.take() else {
            return Err(Error::Invalid("`\\` at the end"));
        };
        Ok(match char {
            'd' => Atom::In(DIGITS),
            'D' => Atom::NotIn(DIGITS),
            'w' => Atom::In(WORD),
            'W' => Atom::NotIn(WORD),
            's' => Atom::In(SPACES),
            'S' => Atom::NotIn(SPACES),
            'f' => Atom::Char('\u{c}'),
            'n' => Atom::Char('\n'),
            'r' => Atom::Char('\r'),
            't' => Atom::Char('\t'),
            'v' => Atom::Char('\u{b}'),
            '0'..='7' => {
                self.at -= 1;
                let digits = if char <= '3' { 3 } else { 2 };
                Atom::Char(self.character(8, 1..=digits).unwrap_or_default())
            }
            'c' => {
                let letter = self.peek().filter(char::is_ascii_alphabetic);
                // Without a letter, the backslash is a literal.
                self.at = if letter.is_some() {
                    self.at + 1
                } else {
                    self.at - 1
                };
                Atom::Char(letter.map_or('\\', control_character))
            }
            'x' => Atom::Char(self.character(16, 2..=2).unwrap_or('x')),
            'u' => Atom::Char(self.unicode_escape()),
            'k' if self.has_names() => return Err(NO_NAME),
            char => Atom::Char(char),
        })
    }

    /// Parses the four digits after `\u`, or a surrogate pair of twice four.
    fn unicode_escape(&mut self) -> char {
        let Some(unit) = self.number(16, 4..=4) else {
            return 'u';
        };
        if let Some(char) = char::from_u32(unit) {
            return char;
        }
        let other = if self.eat("\\u") {
            self.number(16, 4..=4)
        } else {
            None
        };
        let units = [Some(unit), other].into_iter().flatten();
        let units = units.filter_map(|unit| u16::try_from(unit).ok());
        if let Some(Ok(char)) = char::decode_utf16(units).next() {
            return char;
        }
        self.give_up("half a surrogate pair");
        char::REPLACEMENT_CHARACTER
    }

    fn character(&mut self, radix: u32, digits: RangeInclusive<usize>) -> Option<char> {
        self.number(radix, digits).and_then(char::from_u32)
    }

    /// Parses a number of so many digits, if there is one.
    fn number(&mut self, radix: u32, digits: RangeInclusive<usize>) -> Option<u32> {
        let rest = self.chars.get(self.at..)?.iter().take(*digits.end());
        let found: Vec<u32> = rest.map_while(|char| char.to_digit(radix)).collect();
        if !digits.contains(&found.len()) {
            return None;
        }
        self.at += found.len();
        Some(found.iter().fold(0, |number, digit| number * radix + digit))
    }

    /// Returns the numbers of the groups with the name in `<name>`.
    fn named_groups(&mut self) -> Result<Vec<usize>, Error> {
        let rest = self.chars.get(self.at..).unwrap_or_default();
        let ['<', rest @ ..] = rest else {
            return Err(NO_NAME);
        };
        let name: String = rest.iter().take_while(|char| **char != '>').collect();
        let groups = self.group_names.iter().zip(1..);
        let named = groups.filter(|(other, _)| other.as_deref() == Some(name.as_str()));
        let numbers: Vec<usize> = named.map(|(_, number)| number).collect();
        self.at += "<>".len() + name.chars().count();
        if numbers.is_empty() || self.at > self.chars.len() {
            return Err(NO_NAME);
        }
        Ok(numbers)
    }

    /// Translates a back-reference to the one of these groups that has a capture. A group
    /// that is not closed yet has none.
    fn back_reference(&mut self, numbers: &[usize]) -> Term {
        if self.in_look_behind {
            self.give_up("a back-reference in a look-behind");
        }
        self.referenced.extend(numbers);
        self.out.push_str("(?:");
        let ended = numbers.iter().filter(|number| self.closed.contains(number));
        let choices = ended.map(|number| format!(r"(?({number})\{number}|)"));
        self.out.extend(choices);
        // `fancy_regex` does not repeat an empty group without an alternative.
        self.push(&format!("|{NOTHING})"), Term::Atom)
    }

    fn has_names(&self) -> bool {
        self.group_names.iter().any(Option::is_some)
    }
}

/// `\cA` is U+0001, and so on.
fn control_character(letter: char) -> char {
    char::from_u32(u32::from(letter) % 32).unwrap_or_default()
}

fn push_item(atom: Atom, items: &mut String) {
    match atom {
        Atom::Char(char) => push_literal(char, items),
        Atom::In(set) => items.push_str(set),
        Atom::NotIn(set) => items.extend(["[^", set, "]"]),
    }
}
