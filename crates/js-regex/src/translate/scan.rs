//! Scans of a pattern that need no translation.

/// Flags of a group that change the translation of its content.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Flags {
    pub(super) multi_line: bool,
    pub(super) dot_all: bool,
}

/// A quantifier, without a following `?`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Repeat {
    pub(super) min: u64,
    pub(super) max: Option<u64>,
    /// The index after the quantifier.
    pub(super) end: usize,
}

impl Repeat {
    /// Parses the quantifier at `at`, if there is one. A `{` that begins none is a
    /// literal.
    pub(super) fn read(chars: &[char], at: usize) -> Option<Self> {
        let (min, max) = match chars.get(at)? {
            '*' => (0, None),
            '+' => (1, None),
            '?' => (0, Some(1)),
            '{' => return Self::read_braces(chars, at + 1),
            _ => return None,
        };
        let end = at + 1;
        Some(Self { min, max, end })
    }

    fn read_braces(chars: &[char], at: usize) -> Option<Self> {
        let (min, at) = read_number(chars, at);
        let min = min?;
        let (max, at) = match chars.get(at)? {
            ',' => read_number(chars, at + 1),
            _ => (Some(min), at),
        };
        let end = at + 1;
        (chars.get(at) == Some(&'}')).then_some(Self { min, max, end })
    }
}

/// Parses the number at `at`, if there is one, and returns it with the index after it.
/// Numbers that are too large saturate.
pub(super) fn read_number(chars: &[char], at: usize) -> (Option<u64>, usize) {
    let rest = chars.get(at..).unwrap_or_default();
    let digits = rest.iter().map_while(|char| char.to_digit(10));
    let number = digits.fold(None, |number: Option<u64>, digit| {
        let tens = number.unwrap_or_default().saturating_mul(10);
        Some(tens.saturating_add(digit.into()))
    });
    let length = rest.iter().take_while(|char| char.is_ascii_digit()).count();
    (number, at + length)
}

/// Returns all capturing groups in the order of their `(`, each with its name, if any.
/// Alternatives may use the same name (ECMAScript 2025).
pub(super) fn scan_groups(chars: &[char]) -> Vec<Option<String>> {
    let mut groups = Vec::new();
    let mut in_class = false;
    let mut at = 0;
    while let Some(char) = chars.get(at) {
        let rest = chars.get(at + 1..).unwrap_or_default();
        match char {
            '\\' => at += 1,
            '[' => in_class = true,
            ']' => in_class = false,
            '(' if !in_class => match rest {
                ['?', '<', '=' | '!', ..] => (),
                ['?', '<', name @ ..] => {
                    groups.push(Some(name.iter().take_while(|char| **char != '>').collect()));
                }
                ['?', ..] => (),
                _ => groups.push(None),
            },
            _ => (),
        }
        at += 1;
    }
    groups
}
