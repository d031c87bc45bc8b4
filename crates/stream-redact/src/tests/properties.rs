//! Properties of masks, tested against a reference implementation.

use std::{sync::Arc, time::Duration};

use proptest::{prelude::*, sample::Index};
use regex::Regex;
use rustix::time::{ClockId, clock_gettime};

use super::{
    every_detector,
    reference::{part, reference_mask},
    samples::{JWT, secrets},
    shown,
};
use crate::{Mask, NextText, Style};

/// Pushes pieces, and compares the output with the reference implementation after each.
#[track_caller]
fn check(mask: &Mask, pieces: &[&str]) {
    let whole = pieces.concat();
    let (mut stream, mut out, mut pushed) = (mask.stream(), String::new(), 0);
    for piece in pieces {
        out += &stream.push(piece);
        pushed += piece.len();
        let reference = reference_mask(&mask.rules, part(&whole, 0..pushed), false);
        assert_eq!(
            out,
            reference.text,
            "after {:?} of {whole:?}",
            part(&whole, 0..pushed)
        );
        let held = pushed - reference.decided;
        assert_eq!(stream.held(), held, "after {pushed} bytes of {whole:?}");
        assert_eq!(stream.is_idle(), held == 0);
        assert!(held < mask.rules.limit);
    }
    out += &stream.finish();
    assert_eq!(
        out,
        reference_mask(&mask.rules, &whole, true).text,
        "{pieces:?}"
    );
    assert_eq!(out, shown(mask, &whole));
}

/// Splits a text at these positions, rounded down to characters.
fn split<'t>(text: &'t str, positions: &[usize]) -> Vec<&'t str> {
    let mut positions: Vec<usize> = positions
        .iter()
        .map(|position| text.floor_char_boundary(*position))
        .collect();
    positions.extend([0, text.len()]);
    positions.sort_unstable();
    positions
        .windows(2)
        .map(|pair| part(text, pair[0]..pair[1]))
        .collect()
}

/// Masks a text that is split at these positions, and checks the output.
fn assert_same_result(mask: &Mask, text: &str, expected: &str, positions: &[usize]) {
    let mut stream = mask.stream();
    let mut out: String = split(text, positions)
        .into_iter()
        .map(|chunk| stream.push(chunk))
        .collect();
    out += &stream.finish();
    assert_eq!(out, expected, "{text:?} split at {positions:?}");
}

#[test]
fn every_secret_is_masked_wherever_its_text_is_split() {
    for before in ["é: ", "\\u0020", "%"] {
        assert_masked_wherever_split(before);
    }
}

#[track_caller]
fn assert_masked_wherever_split(before: &str) {
    let mask = every_detector();
    let mut seen = Vec::new();
    for (name, secret) in secrets() {
        let text = format!("{before}{secret}, b");
        let expected = format!("{before}[REDACTED:{name}], b");
        let pieces: Vec<String> = text.chars().map(String::from).collect();
        let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
        check(&mask, &pieces);
        // The first secret of each detector in three pieces, the others in two.
        let is_first = !seen.contains(&name);
        seen.push(name);
        let deeper = if is_first { text.len() } else { 0 };
        for first in 0..text.len() {
            assert_same_result(&mask, &text, &expected, &[first]);
            for second in first..deeper {
                assert_same_result(&mask, &text, &expected, &[first, second]);
            }
        }
    }
}

/// Splits at four positions of a text that is short enough for all of them.
#[test]
fn every_split_gives_the_same_result() {
    let patterns = [("p", "x[a-c]+y|cd"), ("q", "é+")];
    let mask = Mask::new(&["us_ssn"], &patterns, &Style::Label).unwrap();
    let text = "é xabcdx 078-05-1120y";
    let expected = "[REDACTED:q] xab[REDACTED:p]x 078-05-1120y";
    let ways = (0..text.len()).flat_map(|a| (a..text.len()).map(move |b| [a, b]));
    let ways: Vec<[usize; 2]> = ways.collect();
    for [a, b] in &ways {
        for [c, d] in ways.iter().filter(|way| way[0] >= *b) {
            assert_same_result(&mask, text, expected, &[*a, *b, *c, *d]);
        }
    }
}

/// Random texts of words, beginnings of secrets, and secrets.
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
        "\\", "é", "%", "%20", "\\x2", "\\u0020", "\\u",
    ];
    let secrets: Vec<String> = secrets().into_iter().map(|secret| secret.1).collect();
    let part = prop_oneof![
        4 => prop::sample::select(words.to_vec()).prop_map(str::to_owned),
        1 => "[a-zA-Z0-9é+/=._@-]{1,12}",
        1 => "[0-9 .-]{1,16}",
        2 => prop::sample::select(secrets.clone()),
        2 => (prop::sample::select(secrets), any::<Index>()).prop_map(|(secret, at)| {
            let end = secret.floor_char_boundary(at.index(secret.len()));
            part(&secret, 0..end).to_owned()
        }),
    ];
    let joint = prop::sample::select(joints.to_vec());
    let parts = prop::collection::vec((part, joint), 0..10);
    parts.prop_map(|pairs| {
        pairs
            .into_iter()
            .map(|(part, joint)| part + joint)
            .collect()
    })
}

fn any_splits() -> impl Strategy<Value = Vec<Index>> {
    prop::collection::vec(any::<Index>(), 0..8)
}

fn positions(text: &str, cuts: &[Index]) -> Vec<usize> {
    cuts.iter().map(|cut| cut.index(text.len() + 1)).collect()
}

/// Random regular expressions that match parts of random texts.
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
    prop::collection::vec(parts.prop_map(|parts| parts.concat()), 1..3)
        .prop_map(|choices| choices.join("|"))
}

#[test]
fn chunks_are_masked_like_the_whole_and_held_as_short_as_possible() {
    let mask = every_detector();
    let small = Mask::holding(
        80,
        &pattern_names(&mask),
        &[("z", "[a-z]+!")],
        &Style::Label,
    )
    .unwrap();
    proptest!(ProptestConfig::with_cases(150), |(text in any_text(), cuts in any_splits())| {
        check(&mask, &split(&text, &positions(&text, &cuts)));
        check(&small, &split(&text, &positions(&text, &cuts)));
    });
}

/// Masks texts of a stream that are cut at positions of the first and last one.
fn masked_stream(mask: &Mask, texts: &[String], cuts: &[Index]) -> (String, Vec<Arc<str>>) {
    let (mut stream, mut out) = (mask.stream(), String::new());
    for text in texts {
        for piece in split(text, &positions(text, cuts)) {
            out += &stream.push(piece);
            assert!(stream.held() < mask.rules.limit);
        }
        stream.end_text();
    }
    out += &stream.finish();
    (out, stream.found())
}

#[test]
fn texts_of_a_stream_are_masked_like_those_that_are_whole() {
    let detectors = every_detector();
    let patterns = [("z", "[a-z]+!"), ("w", r"\bat\b|c$|\Bon")];
    let masks = [80, 8192].map(|limit| {
        Mask::holding(limit, &pattern_names(&detectors), &patterns, &Style::Label).unwrap()
    });
    let texts = prop::collection::vec(any_text(), 1..5);
    proptest!(ProptestConfig::with_cases(300), |(texts in texts, cuts in any_splits())| {
        let parts: Vec<&str> = texts.iter().map(String::as_str).collect();
        for mask in &masks {
            let whole = mask.mask_parts(&parts);
            let (out, found) = masked_stream(mask, &texts, &cuts);
            let expected = whole.as_ref().map_or_else(|| texts.concat(), |whole| whole.texts.concat());
            prop_assert_eq!(out, expected, "{:?}", texts);
            prop_assert_eq!(found, whole.map(|whole| whole.detectors).unwrap_or_default());
        }
    });
}

/// If no secret is in two texts, each of them may end in front of the next.
#[test]
fn texts_that_no_secret_joins_are_masked_alone() {
    let mask = every_detector();
    let texts = (any_text(), any_text(), any::<bool>());
    proptest!(ProptestConfig::with_cases(300), |((text, next, is_complete) in texts, cuts in any_splits())| {
        let (mut stream, mut out) = (mask.stream(), String::new());
        for piece in split(&text, &positions(&text, &cuts)) {
            out += &stream.push(piece);
        }
        let joins = stream.joins("", NextText { text: &next, is_complete });
        prop_assert!(joins.is_some() || !is_complete);
        if joins != Some(false) {
            return Ok(());
        }
        out += &stream.finish();
        out += &stream.push(&next);
        out += &stream.finish();
        let whole = mask.mask_parts(&[&text, &next]);
        let expected = whole.map_or_else(|| text + &next, |whole| whole.texts.concat());
        prop_assert_eq!(out, expected);
    });
}

fn pattern_names(mask: &Mask) -> Vec<&str> {
    mask.rules
        .all
        .iter()
        .map(|pattern| &*pattern.name)
        .collect()
}

#[test]
fn hashes_do_not_depend_on_chunk_boundaries() {
    let detectors = every_detector();
    let mask = Mask::holding(
        80,
        &pattern_names(&detectors),
        &[],
        &Style::Hash("key".into()),
    )
    .unwrap();
    proptest!(ProptestConfig::with_cases(100), |(text in any_text(), cuts in any_splits())| {
        assert_same_result(&mask, &text, &shown(&mask, &text), &positions(&text, &cuts));
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn a_pattern_finds_the_matches_of_the_regex_crate(
        pattern in any_pattern(),
        text in "[abcé\n ]{0,24}",
        cuts in any_splits(),
    ) {
        let Ok(mask) = Mask::new(&[], &[("p", &pattern)], &Style::Label) else {
            return Ok(());
        };
        let ascii = pattern.replace(r"\b", r"(?-u:\b)").replace(r"\B", r"(?-u:\B)");
        let regex = Regex::new(&ascii).unwrap();
        let expected = regex.replace_all(&text, "[REDACTED:p]");
        prop_assert_eq!(shown(&mask, &text), expected);
        check(&mask, &split(&text, &positions(&text, &cuts)));
    }

    /// An attempt that fails ends early where an earlier attempt has been.
    #[test]
    fn long_runs_are_masked_like_by_the_reference_implementation(
        parts in prop::collection::vec(("[abc]", 1..90_usize), 0..8),
        limit in prop::sample::select(vec![30, 100, 8192]),
    ) {
        let text: String = parts.iter().map(|(letter, times)| letter.repeat(*times)).collect();
        let patterns = [("p", "a+b{3}a"), ("q", "[ab]*ab{5,20}a+b"), ("r", "(a|b){100,120}"), ("s", "[ab]{70}c"), ("t", "a([ab]*c)?")];
        let mask = Mask::holding(limit, &[], &patterns, &Style::Label).unwrap();
        check(&mask, &split(&text, &[text.len() / 3, text.len() / 2]));
    }
}

/// Matches that are refused because they have no digit, or end within a word.
#[test]
fn long_refused_matches_are_masked_like_by_the_reference_implementation() {
    let masks = [100, 8192].map(|limit| {
        let detectors = ["openai_key", "anthropic_key", "slack_key", "google_key"];
        Mask::holding(limit, &detectors, &[], &Style::Label).unwrap()
    });
    let parts = [
        "sk-", "sk-ant-", "sk-proj-", "xoxb-", "AQ.", "a", "b-", "_", "A", "7", " ", "é",
    ];
    let part = (prop::sample::select(parts.to_vec()), 1..40_usize);
    let texts = prop::collection::vec(part, 0..10);
    proptest!(ProptestConfig::with_cases(150), |(texts in texts, cuts in any_splits())| {
        let text: String = texts.iter().map(|(part, times)| part.repeat(*times)).collect();
        for mask in &masks {
            check(mask, &split(&text, &positions(&text, &cuts)));
        }
    });
}

#[test]
fn a_key_behind_a_long_word_without_a_digit_is_masked_wherever_it_is_split() {
    let mask = every_detector();
    for start in ["sk-proj-", "sk-ant-"] {
        let word = start.repeat(30);
        let text = format!("{word} {word}{word}7, {word}");
        let expected =
            ["openai_key", "anthropic_key"].map(|name| format!("{word} [REDACTED:{name}], {word}"));
        let expected = &expected[usize::from(start == "sk-ant-")];
        for at in 0..text.len() {
            assert_same_result(&mask, &text, expected, &[at, at + 70]);
        }
    }
}

/// Headers of web tokens around their largest size, one behind the other.
#[test]
fn long_web_tokens_are_masked_like_by_the_reference_implementation() {
    let mask = every_detector();
    let token = |header: usize| format!("eyJ{}.eyJzdWIiOiIx.dozj ", "a".repeat(header));
    let near = format!("eyJ{}-{}", "b".repeat(20), token(1010));
    let far = format!("eyJ{}-{}", "b".repeat(2000), token(1024));
    for text in [token(1024), token(1025), near, far.clone(), far.repeat(3)] {
        let middle = text.len() / 2;
        check(&mask, &split(&text, &[1000, 1026, 1029, 1500, middle]));
        check(&mask, &split(&text, &[100, middle]));
    }
    assert_eq!(shown(&mask, &token(1024)), "[REDACTED:jwt] ");
    assert_eq!(shown(&mask, &token(1025)), token(1025));
    assert!(shown(&mask, &far).ends_with("b-[REDACTED:jwt] "));
}

#[test]
fn web_tokens_near_each_other_are_masked() {
    let mask = every_detector();
    for (text, masked) in [
        ("{JWT} {JWT}", "[REDACTED:jwt] [REDACTED:jwt]"),
        (
            "{JWT}, {JWT} and {JWT}.",
            "[REDACTED:jwt], [REDACTED:jwt] and [REDACTED:jwt].",
        ),
        (
            "eyJhbGciOi... is short for {JWT}",
            "eyJhbGciOi... is short for [REDACTED:jwt]",
        ),
        ("eyJ-eyJ. eyJx. {JWT}", "eyJ-eyJ. eyJx. [REDACTED:jwt]"),
    ] {
        let text = text.replace("{JWT}", JWT);
        assert_eq!(shown(&mask, &text), masked);
        let middle = text.len() / 2;
        check(&mask, &split(&text, &[10, middle, text.len() - 2]));
        check(&mask, &split(&text, &[text.len() - JWT.len()]));
    }
}

/// Returns the CPU time of this thread.
fn thread_cpu_time() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap()
}

/// Returns the least CPU time of three runs.
fn min_cpu_time(mask: &Mask, text: &str) -> Duration {
    let once = || {
        let started = thread_cpu_time();
        let mut stream = mask.stream();
        for at in (0..text.len()).step_by(300) {
            stream.push(part(text, at..text.len().min(at + 300)));
        }
        stream.finish();
        thread_cpu_time().checked_sub(started).unwrap()
    };
    (0..3).map(|_| once()).min().unwrap()
}

/// The factor is wide, because other processes share the caches: 300 to 1000 are usual. A search
/// that reads held text again and again exceeds it by far.
#[test]
fn the_cpu_time_per_byte_is_bounded() {
    const BYTES: usize = 1 << 15;
    let detectors = every_detector();
    let patterns = [
        ("p", "[a-z0-9]+@[a-z]+#"),
        ("q", "a.{0,40}z"),
        ("r", "[a-z ]*!"),
    ];
    let both = Mask::new(&pattern_names(&detectors), &patterns, &Style::Label).unwrap();
    let line = "a".repeat(8000) + "\n";
    let parts = "a|1|a@|+1 |a@a.|eyJ|eyJ-|eyJaaaaaaaaaa-|-|-----BEGIN |AKIA|1 |11 11 |sk-|sk-proj-|://a:|\
        aws_secret_access_key=|DE89 |0171 |é|a.|A|.|\\n|%20|gh|xoxb-|AQ.----------";
    let plain = min_cpu_time(
        &detectors,
        &"The quick brown fox, jumps. ".repeat(BYTES / 28),
    );
    for mask in [&detectors, &both] {
        for part in parts.split('|').chain([&*line]) {
            let cpu_time = min_cpu_time(mask, &part.repeat(BYTES / part.len()));
            assert!(
                cpu_time < plain * 3000,
                "{part:?}: {cpu_time:?}, plain: {plain:?}"
            );
        }
    }
}

/// A failed attempt is not read again from each later start in the same word.
#[test]
fn the_cpu_time_per_byte_does_not_depend_on_the_length_of_words() {
    const BYTES: usize = 1 << 16;
    let detectors = every_detector();
    let pattern = [("p", "a([ab]*c)?")];
    let pattern = Mask::new(&[], &pattern, &Style::Label).unwrap();
    for (mask, part) in [
        (&detectors, "sk-proj-"),
        (&detectors, "sk-ant-"),
        (&pattern, "ab"),
    ] {
        let [short, long] = [1000, 8000].map(|length| {
            let word = part.repeat(length / part.len()) + " ";
            min_cpu_time(mask, &word.repeat(BYTES / length))
        });
        assert!(long < short * 3, "{part:?}: {long:?}, short: {short:?}");
    }
}
