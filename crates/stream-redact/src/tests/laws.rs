//! The laws of masks, against a search that does the same the slow way.

use std::time::Duration;

use proptest::{prelude::*, sample::Index};
use regex::Regex;
use rustix::time::{ClockId, clock_gettime};

use super::{
    every_detector, secrets, shown,
    slow::{known, part},
};
use crate::{Mask, Style};

/// Pushes pieces, and compares with the slow search after each.
#[track_caller]
fn check(mask: &Mask, pieces: &[&str]) {
    let whole = pieces.concat();
    let (mut stream, mut out, mut pushed) = (mask.stream(), String::new(), 0);
    for piece in pieces {
        out += &stream.push(piece);
        pushed += piece.len();
        let known = known(&mask.rules, part(&whole, 0..pushed), false);
        assert_eq!(
            out,
            known.text,
            "after {:?} of {whole:?}",
            part(&whole, 0..pushed)
        );
        let held = pushed - known.decided;
        assert_eq!(stream.held(), held, "after {pushed} bytes of {whole:?}");
        assert_eq!(stream.is_idle(), held == 0);
        assert!(held < mask.rules.limit);
    }
    out += &stream.finish();
    assert_eq!(out, known(&mask.rules, &whole, true).text, "{pieces:?}");
    assert_eq!(out, shown(mask, &whole));
}

/// Cuts a text at these places, or as near as characters allow.
fn cut<'t>(text: &'t str, places: &[usize]) -> Vec<&'t str> {
    let mut places: Vec<usize> = places
        .iter()
        .map(|it| text.floor_char_boundary(*it))
        .collect();
    places.extend([0, text.len()]);
    places.sort_unstable();
    places
        .windows(2)
        .map(|it| part(text, it[0]..it[1]))
        .collect()
}

/// The text comes out the same, wherever it is cut.
fn same_for(mask: &Mask, text: &str, expected: &str, places: &[usize]) {
    let mut stream = mask.stream();
    let mut out: String = cut(text, places)
        .into_iter()
        .map(|it| stream.push(it))
        .collect();
    out += &stream.finish();
    assert_eq!(out, expected, "{text:?} cut at {places:?}");
}

#[test]
fn every_secret_is_concealed_wherever_its_text_is_cut() {
    let mask = every_detector();
    let mut seen = Vec::new();
    for (name, secret) in secrets() {
        let text = format!("é: {secret}, b");
        let expected = format!("é: [REDACTED:{name}], b");
        let pieces: Vec<String> = text.chars().map(String::from).collect();
        let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
        check(&mask, &pieces);
        // The first of each kind in every way, the others in two pieces.
        let is_first = !seen.contains(&name);
        seen.push(name);
        let deeper = if is_first { text.len() } else { 0 };
        for first in 0..text.len() {
            same_for(&mask, &text, &expected, &[first]);
            for second in first..deeper {
                same_for(&mask, &text, &expected, &[first, second]);
            }
        }
    }
}

/// Three and four cuts, of a text that is short enough for all of them.
#[test]
fn every_way_of_cutting_gives_the_same() {
    let patterns = [("p", "x[a-c]+y|cd"), ("q", "é+")];
    let mask = Mask::new(&["us_ssn"], &patterns, &Style::Label).unwrap();
    let text = "é xabcdx 078-05-1120y";
    let expected = "[REDACTED:q] xab[REDACTED:p]x 078-05-1120y";
    let ways = (0..text.len()).flat_map(|a| (a..text.len()).map(move |b| [a, b]));
    let ways: Vec<[usize; 2]> = ways.collect();
    for [a, b] in &ways {
        for [c, d] in ways.iter().filter(|it| it[0] >= *b) {
            same_for(&mask, text, expected, &[*a, *b, *c, *d]);
        }
    }
}

/// Ordinary words, what only begins like a secret, and secrets.
fn any_text() -> impl Strategy<Value = String> {
    let words = [
        "the",
        "config",
        "a",
        "at",
        "json",
        "eye",
        "sketch",
        "ghost",
        "AKA",
        "héllo",
        "数据",
        "🦀",
        "0x1f",
        "2024-05-06",
        "1.2.3",
        "-----",
        "https://",
        "user",
        "pw",
        "foo_bar",
        "sk",
        "eyJ",
        "AKIA",
        "xox",
        "+1",
        "4111",
        "555",
        "DE89",
        "-----BEGIN ",
        "secret_key",
        "john",
        "example.com",
    ];
    let joints = [
        "", "", " ", " ", "\n", "\\n", ".", ",", ":", "=", "\"", "@", "/", "-", "_", "%3D", "+",
        "\\", "é",
    ];
    let secrets: Vec<String> = secrets().into_iter().map(|it| it.1).collect();
    let part = prop_oneof![
        4 => prop::sample::select(words.to_vec()).prop_map(str::to_owned),
        1 => "[a-zA-Z0-9é+/=._@-]{1,12}",
        1 => "[0-9 .-]{1,16}",
        2 => prop::sample::select(secrets.clone()),
        2 => (prop::sample::select(secrets), any::<Index>())
            .prop_map(|(it, at)| part(&it, 0..it.floor_char_boundary(at.index(it.len()))).to_owned()),
    ];
    let joint = prop::sample::select(joints.to_vec());
    let parts = prop::collection::vec((part, joint), 0..10);
    parts.prop_map(|it| it.into_iter().map(|(part, joint)| part + joint).collect())
}

fn any_cuts() -> impl Strategy<Value = Vec<Index>> {
    prop::collection::vec(any::<Index>(), 0..8)
}

fn places(text: &str, cuts: &[Index]) -> Vec<usize> {
    cuts.iter().map(|it| it.index(text.len() + 1)).collect()
}

/// A random regular expression, in words that random texts hold.
fn any_pattern() -> impl Strategy<Value = String> {
    let atoms = [
        "a", "b", "c", "ab", "[ab]", "[^a]", "é", ".", "(?:ab|a)", "(?:b|bc)", r"\bc", r"a\b",
        "^a", "c$", r"\Bb", "(?m:^b)", "(?i:É)", r"\w",
    ];
    let repeats = ["", "", "", "?", "*", "+", "{2}", "*?", "{1,3}", "+?"];
    let part = (
        prop::sample::select(atoms.to_vec()),
        prop::sample::select(repeats.to_vec()),
    );
    let parts = prop::collection::vec(
        part.prop_map(|(atom, repeat)| format!("(?:{atom}){repeat}")),
        1..5,
    );
    prop::collection::vec(parts.prop_map(|it| it.concat()), 1..3).prop_map(|it| it.join("|"))
}

#[test]
fn pieces_come_out_like_the_whole_and_nothing_is_held_in_vain() {
    let mask = every_detector();
    let small = Mask::holding(80, &names(&mask), &[("z", "[a-z]+!")], &Style::Label).unwrap();
    proptest!(ProptestConfig::with_cases(150), |(text in any_text(), cuts in any_cuts())| {
        check(&mask, &cut(&text, &places(&text, &cuts)));
        check(&small, &cut(&text, &places(&text, &cuts)));
    });
}

fn names(mask: &Mask) -> Vec<&str> {
    mask.rules.all.iter().map(|it| &*it.name).collect()
}

#[test]
fn hashes_come_out_the_same() {
    let names = every_detector();
    let mask = Mask::holding(80, &self::names(&names), &[], &Style::Hash("key".into())).unwrap();
    proptest!(ProptestConfig::with_cases(100), |(text in any_text(), cuts in any_cuts())| {
        same_for(&mask, &text, &shown(&mask, &text), &places(&text, &cuts));
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// A pattern means what it means everywhere else.
    #[test]
    fn a_pattern_alone_finds_what_a_regular_expression_finds(
        pattern in any_pattern(),
        text in "[abcé\n ]{0,24}",
        cuts in any_cuts(),
    ) {
        let Ok(mask) = Mask::new(&[], &[("p", &pattern)], &Style::Label) else {
            return Ok(());
        };
        let ascii = pattern.replace(r"\b", r"(?-u:\b)").replace(r"\B", r"(?-u:\B)");
        let regex = Regex::new(&ascii).unwrap();
        let expected = regex.replace_all(&text, "[REDACTED:p]");
        prop_assert_eq!(shown(&mask, &text), expected);
        check(&mask, &cut(&text, &places(&text, &cuts)));
    }

    /// Long runs that find nothing are cut short where another has been.
    #[test]
    fn a_long_text_is_searched_like_a_short_one(
        parts in prop::collection::vec(("[abc]", 1..90_usize), 0..8),
        limit in prop::sample::select(vec![30, 100, 8192]),
    ) {
        let text: String = parts.iter().map(|(it, times)| it.repeat(*times)).collect();
        let patterns = [("p", "a+b{3}a"), ("q", "[ab]*ab{5,20}a+b"), ("r", "(a|b){100,120}"), ("s", "[ab]{70}c")];
        let mask = Mask::holding(limit, &[], &patterns, &Style::Label).unwrap();
        check(&mask, &cut(&text, &[text.len() / 3, text.len() / 2]));
    }
}

/// How long this thread has been at work.
fn worked() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap()
}

/// The least time of three, without that in which others are at work.
fn time(mask: &Mask, text: &str) -> Duration {
    let once = || {
        let started = worked();
        let mut stream = mask.stream();
        for at in (0..text.len()).step_by(300) {
            stream.push(part(text, at..text.len().min(at + 300)));
        }
        stream.finish();
        worked().checked_sub(started).unwrap()
    };
    (0..3).map(|_| once()).min().unwrap()
}

/// The factor is wide, for caches that are shared with others. A search that reads what is held over
/// and over is beyond it by far.
#[test]
fn no_text_costs_much_more_than_another() {
    const BYTES: usize = 1 << 15;
    let detectors = every_detector();
    let patterns = [
        ("p", "[a-z0-9]+@[a-z]+#"),
        ("q", "a.{0,40}z"),
        ("r", "[a-z ]*!"),
    ];
    let both = Mask::new(&names(&detectors), &patterns, &Style::Label).unwrap();
    let line = "a".repeat(8000) + "\n";
    let parts = "a|1|a@|+1 |a@a.|eyJ|-|-----BEGIN |AKIA|1 |11 11 |sk-|sk-proj-|://a:|\
        aws_secret_access_key=|DE89 |0171 |é|a.|A|.|\\n|%20|gh|xoxb-|AQ.----------";
    let plain = time(
        &detectors,
        &"The quick brown fox, jumps. ".repeat(BYTES / 28),
    );
    for mask in [&detectors, &both] {
        for part in parts.split('|').chain([&*line]) {
            let took = time(mask, &part.repeat(BYTES / part.len()));
            assert!(took < plain * 1000, "{part:?}: {took:?}, plain: {plain:?}");
        }
    }
}
