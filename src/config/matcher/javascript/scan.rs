//! What can be read off a pattern without translating it. Pure.

/// Flags of a group that change how its content is written.
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
    /// Where the pattern goes on.
    pub(super) end: usize,
}

impl Repeat {
    /// The quantifier at `at`, if one is there. A `{` that begins none means
    /// itself.
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

/// The number at `at`, if there is one, and what follows it. A number too large
/// to count to is as large as can be.
pub(super) fn read_number(chars: &[char], at: usize) -> (Option<u64>, usize) {
    let rest = chars.get(at..).unwrap_or_default();
    let digits = rest.iter().map_while(|it| it.to_digit(10));
    let number = digits.fold(None, |number: Option<u64>, digit| {
        let tens = number.unwrap_or_default().saturating_mul(10);
        Some(tens.saturating_add(digit.into()))
    });
    let length = rest.iter().take_while(|it| it.is_ascii_digit()).count();
    (number, at + length)
}

/// Every capturing group in the order of its `(`, with its name if it has one. A
/// name may come twice, as newer JavaScript allows in alternatives.
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
                    groups.push(Some(name.iter().take_while(|it| **it != '>').collect()));
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
