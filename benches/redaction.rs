//! Speed of redaction: `just bench-redaction`.
//!
//! Times typical texts of a coding agent with every detector, beside a `RegexSet`
//! of the same rules; then a stream in chunks; then worst-case texts.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::{
    error::Error,
    hint::black_box,
    time::{Duration, Instant},
};

use regex::RegexSet;
use stream_redact::{DETECTORS, Mask, Style};

const TEXT_BYTES: usize = 100 * 1024;
const CHUNK_BYTES: usize = 300;
const ROUNDS: usize = 10;

const PROSE: &str = "The parser reads one line at a time, and whatever it cannot read it hands on: \
    a file of 120 lines took 3.5 ms on 2024-05-06, before the cache (version 1.12.0) was there. ";
const CODE: &str = "    pub fn insert(&mut self, key: K, value: V) -> Option<V> {\n        \
    let hash = self.hasher.hash_one(&key); // see https://docs.rs/hashbrown/0.15.2\n        \
    if self.len >= 0x1000 { self.grow(64); }\n";
const JSON: &str = r#"{"functionCall":{"name":"read_file","args":{"file_path":"/repo/src/main.rs","offset":120,"limit":2000}},"id":"call_8f14e45f","ok":true},"#;
const FOREIGN: &str =
    "Der Wärter prüft größere Blöcke; 解析器一次读取一行，无法读取的内容会原样传递。 ";

fn main() -> Result<(), Box<dyn Error>> {
    let names: Vec<&str> = DETECTORS.iter().map(|detector| detector.name).collect();
    let started = Instant::now();
    let mask = Mask::new(&names, &[], &Style::Label)?;
    println!(
        "{} detectors compiled in {:.1?}",
        names.len(),
        started.elapsed()
    );
    let set = RegexSet::new(DETECTORS.iter().map(|detector| detector.rule))?;

    println!("\n100 KiB without secrets: mask, RegexSet, ratio");
    let mixed = [PROSE, CODE, JSON].concat();
    for (name, part) in [
        ("prose", PROSE),
        ("code", CODE),
        ("json", JSON),
        ("foreign", FOREIGN),
        ("mixed", &mixed),
    ] {
        let text = repeat_to(part, TEXT_BYTES);
        assert_eq!(mask.mask(&text), None);
        let mask_time = shortest(|| mask.mask(&text).is_some());
        let regex_time = shortest(|| set.is_match(&text));
        println!(
            "{name:<16} {mask_time:>9.0?} {regex_time:>9.0?} {:.2}",
            ratio(mask_time, regex_time)
        );
    }

    println!("\nper chunk of {CHUNK_BYTES} bytes: minimum, median, maximum");
    let secrets = "mail john@example.com or +1 415 555 2671, card 4111 1111 1111 1111";
    for (name, text) in [
        ("without secrets", &mixed),
        ("with secrets", &[&mixed, secrets].concat()),
    ] {
        stream(&mask, name, &repeat_to(text, TEXT_BYTES));
    }

    println!("\n1 MiB of worst-case text, in chunks: time, ratio to mixed text");
    let plain = repeat_to(&mixed, 10 * TEXT_BYTES);
    let plain = shortest(|| mask_stream(&mask, &plain));
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
        let text = repeat_to(part, 10 * TEXT_BYTES);
        let time = shortest(|| mask_stream(&mask, &text));
        println!("{part:<16?} {time:>9.1?} {:.1}", ratio(time, plain));
    }
    Ok(())
}

fn ratio(one: Duration, other: Duration) -> f64 {
    one.as_secs_f64() / other.as_secs_f64()
}

fn repeat_to(part: &str, bytes: usize) -> String {
    part.repeat(bytes / part.len() + 1)
}

fn shortest<T>(mut work: impl FnMut() -> T) -> Duration {
    let once = |_| {
        let started = Instant::now();
        black_box(work());
        started.elapsed()
    };
    (0..ROUNDS).map(once).min().unwrap_or_default()
}

fn chunks(mut text: &str) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        let (chunk, rest) = text.split_at(text.floor_char_boundary(CHUNK_BYTES));
        text = rest;
        (!chunk.is_empty()).then_some(chunk)
    })
}

fn mask_stream(mask: &Mask, text: &str) -> usize {
    let mut stream = mask.stream();
    chunks(text).map(|chunk| stream.push(chunk).len()).sum()
}

/// Prints the time for each chunk, and the bytes held back after it.
fn stream(mask: &Mask, name: &str, text: &str) {
    let mut stream = mask.stream();
    let (mut times, mut held) = (Vec::new(), Vec::new());
    for chunk in chunks(text) {
        let started = Instant::now();
        black_box(stream.push(chunk));
        times.push(started.elapsed());
        held.push(stream.held());
    }
    println!(
        "{name:<16} {:?}, held {:?} bytes",
        spread(times),
        spread(held)
    );
}

/// Minimum, median and maximum.
fn spread<T: Copy + Default + Ord>(mut values: Vec<T>) -> [T; 3] {
    values.sort_unstable();
    let indexes = [0, values.len() / 2, values.len().saturating_sub(1)];
    indexes.map(|index| values.get(index).copied().unwrap_or_default())
}
