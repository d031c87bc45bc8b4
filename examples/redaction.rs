//! What masks cost: `cargo run --release --example redaction`.
//!
//! Times texts as a coding agent has them, with every detector, beside a
//! `RegexSet` of the same rules; then a stream in chunks; then texts that were
//! made to be slow.

#![expect(clippy::print_stdout, reason = "a bench tells its numbers")]

use std::{
    error::Error,
    hint::black_box,
    time::{Duration, Instant},
};

use hookgate::mask::{DETECTORS, Mask, Style};
use regex::RegexSet;

const BYTES: usize = 100 * 1024;
const CHUNK_BYTES: usize = 300;
const ROUNDS: usize = 50;

const PROSE: &str = "The parser reads one line at a time, and whatever it cannot read it hands on: \
    a file of 120 lines took 3.5 ms on 2024-05-06, before the cache (version 1.12.0) was there. ";
const CODE: &str = "    pub fn insert(&mut self, key: K, value: V) -> Option<V> {\n        \
    let hash = self.hasher.hash_one(&key); // see https://docs.rs/hashbrown/0.15.2\n        \
    if self.len >= 0x1000 { self.grow(64); }\n";
const JSON: &str = r#"{"functionCall":{"name":"read_file","args":{"file_path":"/repo/src/main.rs","offset":120,"limit":2000}},"id":"call_8f14e45f","ok":true},"#;
const FOREIGN: &str =
    "Der Wärter prüft größere Blöcke; 解析器一次读取一行，无法读取的内容会原样传递。 ";

fn main() -> Result<(), Box<dyn Error>> {
    let names: Vec<&str> = DETECTORS.iter().map(|it| it.name).collect();
    let started = Instant::now();
    let mask = Mask::new(&names, &[], &Style::Label)?;
    println!(
        "{} detectors compiled in {:.1?}",
        names.len(),
        started.elapsed()
    );
    let set = RegexSet::new(DETECTORS.iter().map(|it| it.rule))?;

    println!("\n100 KiB without secrets   conceal   RegexSet");
    let [prose, code, json, foreign] = [PROSE, CODE, JSON, FOREIGN].map(fill);
    let mixed = fill(&[PROSE, CODE, JSON].concat());
    for (name, text) in [
        ("prose", prose),
        ("code", code),
        ("json", json),
        ("foreign", foreign),
        ("mixed", mixed.clone()),
    ] {
        assert_eq!(mask.conceal(&text), None);
        let ours = least(|| mask.conceal(&text).is_some());
        let theirs = least(|| set.is_match(&text));
        let ratio = theirs.as_secs_f64() / ours.as_secs_f64();
        println!("{name:<22} {ours:>9.0?} {theirs:>10.0?}   {ratio:.1} times faster");
    }

    println!("\nstream of {CHUNK_BYTES}-byte chunks");
    let secret = fill(&format!(
        "{} mail john@example.com or +1 415 555 2671, card 4111 1111 1111 1111\n",
        mixed.get(..3000).unwrap_or_default()
    ));
    for (name, text) in [("without secrets", &mixed), ("with secrets", &secret)] {
        stream(&mask, name, text);
    }

    println!("\n1 MiB made to be slow      stream   of mixed text");
    let plain = least(|| push_all(&mask, &mixed)) * 10;
    for part in [
        "a",
        "1",
        "a@",
        "a@a.",
        "+1 ",
        "1 ",
        "DE89 ",
        "0171 ",
        "-",
        "eyJ",
        "://a:",
        "-----BEGIN ",
        "ghp_a",
    ] {
        let text = part.repeat((1 << 20) / part.len());
        let started = Instant::now();
        push_all(&mask, &text);
        let took = started.elapsed();
        println!(
            "{part:<22?} {took:>9.1?}   {:.1} times",
            took.as_secs_f64() / plain.as_secs_f64()
        );
    }
    Ok(())
}

fn fill(part: &str) -> String {
    part.repeat(BYTES / part.len() + 1)
}

fn least<T>(mut work: impl FnMut() -> T) -> Duration {
    let once = |_| {
        let started = Instant::now();
        black_box(work());
        started.elapsed()
    };
    (0..ROUNDS).map(once).min().unwrap_or_default()
}

fn chunks(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (chunk, after) = rest.split_at(rest.floor_char_boundary(CHUNK_BYTES));
        rest = after;
        (!chunk.is_empty()).then_some(chunk)
    })
}

fn push_all(mask: &Mask, text: &str) -> usize {
    let mut masker = mask.stream();
    chunks(text).map(|it| masker.push(it).len()).sum()
}

/// What each chunk costs, and how much is held after it.
fn stream(mask: &Mask, name: &str, text: &str) {
    let mut masker = mask.stream();
    let (mut times, mut held, mut lag) = (Vec::new(), Vec::new(), 0_usize);
    for chunk in chunks(text) {
        let started = Instant::now();
        let out = masker.push(chunk);
        times.push(started.elapsed());
        lag = if masker.is_idle() {
            0
        } else {
            (lag + chunk.len()).saturating_sub(out.len())
        };
        held.push(lag);
    }
    times.sort_unstable();
    held.sort_unstable();
    let of = |part: usize| (times.len() * part / 100).min(times.len() - 1);
    let shown = |at: usize| (times.get(at), held.get(at));
    println!(
        "{name:<16} least {:?}, median {:?}, 99% {:?}, most {:?}",
        shown(0),
        shown(of(50)),
        shown(of(99)),
        shown(of(100))
    );
}
