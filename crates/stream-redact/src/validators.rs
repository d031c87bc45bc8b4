//! Validation of matches beyond regular expressions: check digits, lengths and context.

/// A match to validate.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate<'t> {
    /// Context before the match.
    pub(super) before: &'t [u8],
    pub(super) text: &'t [u8],
    /// The byte after it, unless the text ends.
    pub(super) after: Option<u8>,
}

/// Returns the offset of the secret within the match; `None` if it is not one.
pub(super) type Validator = fn(Candidate<'_>) -> Option<usize>;

/// Country codes of IBANs and their lengths. Sorted.
#[rustfmt::skip]
const IBAN_LENGTHS: &[([u8; 2], usize)] = &[
    (*b"AD", 24), (*b"AE", 23), (*b"AL", 28), (*b"AT", 20), (*b"AZ", 28), (*b"BA", 20), (*b"BE", 16), (*b"BG", 22),
    (*b"BH", 22), (*b"BI", 27), (*b"BR", 29), (*b"BY", 28), (*b"CH", 21), (*b"CR", 22), (*b"CY", 28), (*b"CZ", 24),
    (*b"DE", 22), (*b"DJ", 27), (*b"DK", 18), (*b"DO", 28), (*b"EE", 20), (*b"EG", 29), (*b"ES", 24), (*b"FI", 18),
    (*b"FK", 18), (*b"FO", 18), (*b"FR", 27), (*b"GB", 22), (*b"GE", 22), (*b"GI", 23), (*b"GL", 18), (*b"GR", 27),
    (*b"GT", 28), (*b"HN", 28), (*b"HR", 21), (*b"HU", 28), (*b"IE", 22), (*b"IL", 23), (*b"IQ", 23), (*b"IS", 26),
    (*b"IT", 27), (*b"JO", 30), (*b"KW", 30), (*b"KZ", 20), (*b"LB", 28), (*b"LC", 32), (*b"LI", 21), (*b"LT", 20),
    (*b"LU", 20), (*b"LV", 21), (*b"LY", 25), (*b"MC", 27), (*b"MD", 24), (*b"ME", 22), (*b"MK", 19), (*b"MN", 20),
    (*b"MR", 27), (*b"MT", 31), (*b"MU", 30), (*b"NI", 28), (*b"NL", 18), (*b"NO", 15), (*b"OM", 23), (*b"PK", 24),
    (*b"PL", 28), (*b"PS", 29), (*b"PT", 25), (*b"QA", 29), (*b"RO", 24), (*b"RS", 22), (*b"RU", 33), (*b"SA", 24),
    (*b"SC", 31), (*b"SD", 18), (*b"SE", 24), (*b"SI", 19), (*b"SK", 24), (*b"SM", 27), (*b"SO", 23), (*b"ST", 25),
    (*b"SV", 28), (*b"TL", 23), (*b"TN", 24), (*b"TR", 26), (*b"UA", 29), (*b"VA", 22), (*b"VG", 24), (*b"XK", 20),
    (*b"YE", 30),
];

pub(super) fn email(candidate: Candidate<'_>) -> Option<usize> {
    let text = str::from_utf8(candidate.text).ok()?;
    let (local, domain) = text.split_once('@')?;
    let (labels, top) = domain.rsplit_once('.')?;
    let labels: Vec<&str> = labels.split('.').collect();
    let is_number = |label: &&str| label.bytes().all(|byte| byte.is_ascii_digit());
    // `icon@2x.png`, and `package@1.2.3.tgz`.
    let is_scale = labels.first().is_some_and(|label| is_scale(label));
    let is_version = labels.len() > 1 && labels.iter().rev().take(2).all(is_number);
    let is_hyphened = labels
        .iter()
        .any(|label| label.starts_with('-') || label.ends_with('-'));
    let is_shouted = top.bytes().all(|byte| byte.is_ascii_uppercase());
    // `Com`, but not the name of a function such as `closeAll`.
    let is_name = is_shouted || top.bytes().skip(1).all(|byte| byte.is_ascii_lowercase());
    let is_email = is_name && !is_scale && !is_version && !is_hyphened;
    // `git@github.com:…` is not an address.
    (is_email && local != "git" && !is_in_authority(candidate.before)).then_some(0)
}

fn is_scale(label: &str) -> bool {
    let factor = label.strip_suffix('x');
    factor.is_some_and(|factor| {
        !factor.is_empty() && factor.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// Returns whether the text ends between `scheme://` and `@`. Delimiters of URLs in texts end an
/// authority, too.
fn is_in_authority(before: &[u8]) -> bool {
    let inside = |byte: &&u8| byte.is_ascii_graphic() && !br#"/?#@"'<>|\,;()[]{}"#.contains(byte);
    let user = before.iter().rev().take_while(inside).count();
    let outside = before.len().saturating_sub(user);
    before
        .get(..outside)
        .is_some_and(|scheme| scheme.ends_with(b"://"))
}

pub(super) fn phone(candidate: Candidate<'_>) -> Option<usize> {
    let digits = count(candidate.text, |byte| byte.is_ascii_digit());
    let is_phone = match candidate.text {
        [b'+', rest @ ..] if is_date(rest) => false,
        [b'+', b'1', ..] => digits == 11,
        // At most one separator, or sign, for two digits.
        [b'+', ..] => (8..=15).contains(&digits) && candidate.text.len() <= digits + digits / 2 + 1,
        // Japan; a social security number has nine digits.
        [b'0', ..] if count(candidate.text, |byte| byte == b'-') == 2 => {
            (10..=11).contains(&digits)
        }
        [b'0', ..] => (9..=12).contains(&digits),
        _ => true,
    };
    is_phone.then_some(0)
}

/// Returns whether it begins with a year, a month and a day.
fn is_date(text: &[u8]) -> bool {
    let mut numbers = text.split(|byte| !byte.is_ascii_digit());
    let [year, month, day] = [(); 3].map(|()| numbers.next().map_or(0, <[u8]>::len));
    let is_near = text.starts_with(b"19") || text.starts_with(b"20");
    matches!((year, month, day), (4 | 6, 2, 2)) && (is_near || text.get(year) == Some(&b'-'))
}

pub(super) fn card(candidate: Candidate<'_>) -> Option<usize> {
    let digits = candidate.text.iter().filter(|byte| byte.is_ascii_digit());
    let digits: Vec<u8> = digits.map(|digit| digit - b'0').collect();
    (is_issued(&digits) && luhn(&digits)).then_some(0)
}

/// Returns whether a card number can have this prefix and length.
fn is_issued(digits: &[u8]) -> bool {
    matches!(
        (digits, digits.len()),
        ([4, ..], 13 | 16 | 19)
            | ([3, 0 | 6 | 8 | 9, ..], 14 | 16..=19)
            | ([3, 4 | 7, ..], 15)
            | ([3, 5, ..], 16..=19)
            | ([2, 2..=7, ..] | [5, 1..=5, ..], 16)
            | ([5, 0 | 6..=8, ..], 13..=19)
            | ([6, ..], 13 | 15..=19)
    )
}

/// Luhn checksum: every second digit from the right counts double.
fn luhn(digits: &[u8]) -> bool {
    let doubled = |digit: u8| if digit > 4 { digit * 2 - 9 } else { digit * 2 };
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(at, digit)| u32::from(if at % 2 == 1 { doubled(*digit) } else { *digit }))
        .sum();
    sum.is_multiple_of(10)
}

pub(super) fn iban(candidate: Candidate<'_>) -> Option<usize> {
    let (head, account) = candidate.text.split_first_chunk::<4>()?;
    let country = head.first_chunk::<2>()?;
    let entry = IBAN_LENGTHS
        .binary_search_by_key(country, |row| row.0)
        .ok()?;
    let length = IBAN_LENGTHS.get(entry)?.1;
    if candidate.text.len() - count(candidate.text, |byte| byte == b' ') != length {
        return None;
    }
    let characters = account.iter().chain(head).copied();
    let characters = characters.filter(|byte| *byte != b' ');
    (characters.fold(0, mod_97) == 1).then_some(0)
}

/// Returns the remainder after one more character; a letter counts as two digits.
fn mod_97(remainder: u32, next: u8) -> u32 {
    match char::from(next).to_digit(36) {
        Some(value @ 10..) => (remainder * 100 + value) % 97,
        Some(value) => (remainder * 10 + value) % 97,
        None => remainder,
    }
}

pub(super) fn us_ssn(candidate: Candidate<'_>) -> Option<usize> {
    let is_unissued = candidate.text.starts_with(b"000")
        || candidate.text.starts_with(b"666")
        || candidate.text.starts_with(b"9")
        || candidate.text.get(4..6) == Some(b"00")
        || candidate.text.ends_with(b"0000");
    (!is_unissued && candidate.after != Some(b'-')).then_some(0)
}

pub(super) fn aws_key(candidate: Candidate<'_>) -> Option<usize> {
    let Some(name) = candidate.text.len().checked_sub(40) else {
        return Some(0);
    };
    (!matches!(candidate.after, Some(b'/' | b'+' | b'='))).then_some(name)
}

pub(super) fn google_key(candidate: Candidate<'_>) -> Option<usize> {
    let has = |kind: fn(&u8) -> bool| candidate.text.iter().skip(2).any(kind);
    let is_random =
        has(u8::is_ascii_digit) && has(u8::is_ascii_lowercase) && has(u8::is_ascii_uppercase);
    (candidate.text.starts_with(b"AIza") || is_random).then_some(0)
}

pub(super) fn url_password(candidate: Candidate<'_>) -> Option<usize> {
    let user = candidate.text.get(3..)?;
    let begin = 3 + user.iter().position(|byte| *byte == b':')? + 1;
    let is_secret = !is_placeholder(candidate.text.get(begin..)?);
    (candidate.after == Some(b'@') && is_secret).then_some(begin)
}

/// Returns whether the whole text is a placeholder: `${PASSWORD}`, `$(PASSWORD)`, `$PASSWORD`,
/// `{password}`, `[password]`, `***`, `%s`.
fn is_placeholder(password: &[u8]) -> bool {
    match password {
        [b'$', b'{', .., b'}']
        | [b'$', b'(', .., b')']
        | [b'{', .., b'}']
        | [b'[', .., b']']
        | [b'%', _] => true,
        [b'$', b'A'..=b'Z' | b'_', name @ ..] => name
            .iter()
            .all(|byte| matches!(byte, b'A'..=b'Z' | b'0'..=b'9' | b'_')),
        stars => stars.iter().all(|byte| *byte == b'*'),
    }
}

fn count(text: &[u8], kind: impl Fn(u8) -> bool) -> usize {
    text.iter().filter(|byte| kind(**byte)).count()
}

/// Returns whether an escape ends here: `\n`, `%20`, `\x22`, `\u003d`. A word may begin after
/// it, although the byte before is alphanumeric.
pub(super) fn ends_escape(before: &[u8]) -> bool {
    match before {
        [.., b'\\', b'n' | b'r' | b't'] => true,
        [.., b'%', a, b] | [.., b'\\', b'x', a, b] if is_hex(&[*a, *b]) => true,
        [.., b'\\', b'u', a, b, c, d] => is_hex(&[*a, *b, *c, *d]),
        _ => false,
    }
}

/// Returns whether an offset is within an escape.
pub(super) fn splits_escape(before: &[u8], after: &[u8]) -> bool {
    match (before.last(), after) {
        (Some(b'\\'), [b'n' | b'r' | b't', ..]) => true,
        (Some(b'\\'), [b'x', a, b, ..]) | (Some(b'%'), [a, b, ..]) => is_hex(&[*a, *b]),
        (Some(b'\\'), [b'u', a, b, c, d, ..]) => is_hex(&[*a, *b, *c, *d]),
        _ => false,
    }
}

fn is_hex(code: &[u8]) -> bool {
    code.iter().all(u8::is_ascii_hexdigit)
}

/// Last bytes of escapes.
pub(super) fn end_of_escape(byte: u8) -> bool {
    byte.is_ascii_hexdigit() || matches!(byte, b'n' | b'r' | b't')
}

pub(super) fn digit(byte: u8) -> bool {
    byte.is_ascii_digit()
}

pub(super) fn alphanumeric(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
}

pub(super) fn base64url(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')
}

/// Characters of the local part of an e-mail address.
pub(super) fn local(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'%' | b'+' | b'-')
}

/// Method calls in code, such as `this@Window.close()`.
pub(super) fn after_email(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'('
}

pub(super) fn before_number(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'+' | b'-' | b'.' | b'/')
}

/// A card number may be in a path.
pub(super) fn before_card(byte: u8) -> bool {
    before_number(byte) && byte != b'/'
}

pub(super) fn after_number(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

pub(super) fn not_scheme(byte: u8) -> bool {
    !byte.is_ascii_alphanumeric()
}

pub(super) fn not_at(byte: u8) -> bool {
    byte != b'@'
}
