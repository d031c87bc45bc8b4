//! Verifies a copy of a log: lines from a collector, which may begin anywhere, repeat
//! lines and have them in another order.

use std::{
    collections::BTreeMap,
    io::{self, BufRead, Read},
};

use data_encoding::HEXLOWER;
use serde::de::IgnoredAny;
use serde_json::Value;
use thiserror::Error;

use crate::{
    hash_chain::{GENESIS_HASH, LineLink},
    log_file::MAX_LINE_BYTES,
};

/// Lines that are held to be compared with later ones. A line that comes after so many
/// later ones is a problem, because it cannot be compared any more.
const MAX_HELD_LINES: usize = 256 * 1024;

/// Problems that are kept; further ones are counted.
const MAX_PROBLEMS: usize = 100;

/// Result of verifying a copy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CopyVerification {
    /// Number of different lines whose place in the chain is verified.
    pub lines: u64,
    /// Number of lines that the copy has once more, unchanged.
    pub repeated: u64,
    /// Number of lines with masked fields. Their place in the chain is verified, and
    /// their content cannot be.
    pub masked: u64,
    /// Sequence number of the first line; 0 if there is none.
    pub first_seq: u64,
    /// Sequence number of the last line; 0 if there is none.
    pub last_seq: u64,
    /// Hash of the last line.
    pub last_hash: String,
    /// The first problems; empty if the copy is intact.
    pub problems: Vec<CopyProblem>,
    /// Number of all problems.
    pub problem_count: u64,
}

/// Something that is wrong with a copy. Numbers of input lines begin at 1.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CopyProblem {
    /// Lines are missing between two that are there.
    #[error("missing: {}", seq_range(*first, *last))]
    Missing {
        /// Sequence number of the first missing line.
        first: u64,
        /// Sequence number of the last missing line.
        last: u64,
    },
    /// An input line is not what was written.
    #[error("input line {number}: hash mismatch: the line was changed")]
    Changed {
        /// Number of the input line.
        number: u64,
    },
    /// An input line is longer than a line of a log can be.
    #[error("input line {number}: longer than {MAX_LINE_BYTES} bytes")]
    TooLong {
        /// Number of the input line.
        number: u64,
    },
    /// An intact line has the sequence number of another one.
    #[error("input line {number}: another line has the sequence number {seq}, too")]
    Conflict {
        /// Number of the input line.
        number: u64,
        /// Sequence number of both lines.
        seq: u64,
    },
    /// An intact line does not follow the one before it, or the next one does not follow it.
    #[error("input line {number}: line {seq} is not linked to the lines beside it")]
    Unlinked {
        /// Number of the input line.
        number: u64,
        /// Sequence number of the line.
        seq: u64,
    },
    /// A line comes too late to be compared.
    #[error(
        "input line {number}: line {seq} comes after {MAX_HELD_LINES} later ones; sort the copy by `seq`"
    )]
    Late {
        /// Number of the input line.
        number: u64,
        /// Sequence number of the line.
        seq: u64,
    },
}

/// A line of the copy, reduced to its links.
struct HeldLine {
    hash: [u8; 32],
    prev: [u8; 32],
}

struct CopyVerifier<'a> {
    maskable: &'a [&'a str],
    held: BTreeMap<u64, HeldLine>,
    /// The highest sequence number that is no longer held; 0 if none.
    released: u64,
    result: CopyVerification,
}

/// Verifies the lines of a copy, from whichever line it begins with. Empty lines are
/// skipped. A line may be masked: `masked` lists fields of `maskable`, by JSON pointer, which
/// the line does not have or of which it has the SHA-256.
///
/// # Errors
///
/// Fails if `input` cannot be read. Problems of the copy are in the result.
pub fn verify_copy(mut input: impl BufRead, maskable: &[&str]) -> io::Result<CopyVerification> {
    let mut verifier = CopyVerifier {
        maskable,
        held: BTreeMap::new(),
        released: 0,
        result: CopyVerification::default(),
    };
    let mut number = 0;
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = (&mut input)
            .take(MAX_LINE_BYTES)
            .read_until(b'\n', &mut line)?;
        if read == 0 {
            return Ok(verifier.finish());
        }
        number += 1;
        if line.len() as u64 == MAX_LINE_BYTES && !line.ends_with(b"\n") {
            verifier.report(CopyProblem::TooLong { number });
            input.skip_until(b'\n')?;
            continue;
        }
        let text = line.trim_ascii();
        if !text.is_empty() {
            verifier.add(number, text);
        }
    }
}

impl CopyVerifier<'_> {
    fn add(&mut self, number: u64, text: &[u8]) {
        let Some((link, is_masked)) = parse(text, self.maskable) else {
            return self.report(CopyProblem::Changed { number });
        };
        let seq = link.head.seq;
        let (Some(hash), Some(prev)) = (decode(&link.head.hash), decode(&link.prev)) else {
            return self.report(CopyProblem::Changed { number });
        };
        if let Some(held) = self.held.get(&seq) {
            if (held.hash, held.prev) == (hash, prev) {
                self.result.repeated += 1;
            } else {
                self.report(CopyProblem::Conflict { number, seq });
            }
            return;
        }
        if seq <= self.released {
            return self.report(CopyProblem::Late { number, seq });
        }
        let before = seq.checked_sub(1).and_then(|seq| self.held.get(&seq));
        let after = seq.checked_add(1).and_then(|seq| self.held.get(&seq));
        let is_linked = before.is_none_or(|before| before.hash == prev)
            && after.is_none_or(|after| after.prev == hash)
            && (seq == 1) == (link.prev == GENESIS_HASH);
        if !is_linked {
            return self.report(CopyProblem::Unlinked { number, seq });
        }
        self.held.insert(seq, HeldLine { hash, prev });
        self.result.lines += 1;
        self.result.masked += u64::from(is_masked);
        if self.held.len() > MAX_HELD_LINES {
            self.release_first();
        }
    }

    /// Stops holding the first line. Lines missing behind it are a problem from now on.
    fn release_first(&mut self) {
        let Some((seq, line)) = self.held.pop_first() else {
            return;
        };
        if self.result.first_seq == 0 {
            self.result.first_seq = seq;
        }
        self.result.last_seq = seq;
        self.released = seq;
        match self.held.first_key_value() {
            Some((next, _)) if *next > seq + 1 => {
                let (first, last) = (seq + 1, next - 1);
                self.report(CopyProblem::Missing { first, last });
            }
            Some(_) => (),
            None => self.result.last_hash = HEXLOWER.encode(&line.hash),
        }
    }

    fn report(&mut self, problem: CopyProblem) {
        self.result.problem_count += 1;
        if self.result.problems.len() < MAX_PROBLEMS {
            self.result.problems.push(problem);
        }
    }

    fn finish(mut self) -> CopyVerification {
        while !self.held.is_empty() {
            self.release_first();
        }
        self.result
    }
}

/// Returns the links of a line, and whether it has masked fields; `None` if the line was
/// changed otherwise.
fn parse(text: &[u8], maskable: &[&str]) -> Option<(LineLink, bool)> {
    if let Some(link) = LineLink::parse(text) {
        let is_json = serde_json::from_slice::<IgnoredAny>(text).is_ok();
        return is_json.then_some((link, false));
    }
    let line: Value = serde_json::from_slice(text).ok()?;
    let is_masked = |field: &Value| {
        let field = field.as_str().filter(|field| maskable.contains(field));
        let path = field.and_then(|field| field.strip_prefix('/'));
        path.is_some_and(|path| is_masked(&line, path))
    };
    let masked = line.get("masked")?.as_array()?;
    if masked.is_empty() || !masked.iter().all(is_masked) {
        return None;
    }
    Some((LineLink::parse_unchecked(text)?, true))
}

/// Returns whether a value has no field at a path, or a hash there. `*` is every item of a list.
fn is_masked(value: &Value, path: &str) -> bool {
    let Some((name, rest)) = path.split_once('/') else {
        let field = value.get(path);
        return field.is_none_or(|field| field.as_str().and_then(decode).is_some());
    };
    match value {
        Value::Array(items) if name == "*" => items.iter().all(|item| is_masked(item, rest)),
        other => other.get(name).is_none_or(|field| is_masked(field, rest)),
    }
}

fn decode(hash: &str) -> Option<[u8; 32]> {
    HEXLOWER.decode(hash.as_bytes()).ok()?.try_into().ok()
}

fn seq_range(first: u64, last: u64) -> String {
    if first == last {
        format!("line {first}")
    } else {
        format!("lines {first} to {last}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash_chain::ChainHead;

    fn chain(lines: usize) -> Vec<String> {
        let mut head = ChainHead::default();
        let line = |number: usize| {
            let mut out = Vec::new();
            head.append_line(&mut out, format!("\"a\":{number}").as_bytes());
            String::from_utf8(out).unwrap()
        };
        (1..=lines).map(line).collect()
    }

    fn verify(lines: &[String]) -> CopyVerification {
        verify_copy(lines.concat().as_bytes(), &["/a", "/b/*/c"]).unwrap()
    }

    #[test]
    fn a_copy_may_start_late_repeat_lines_and_reorder_them() {
        let lines = chain(9);
        let copies: [Vec<String>; 4] = [
            lines.clone(),
            lines[4..].to_vec(),
            [&lines[..6], &lines[3..]].concat(),
            lines.iter().rev().cloned().collect(),
        ];

        let results = copies.map(|copy| verify(&copy));

        let counts = results.map(|result| {
            assert_eq!(result.problems, []);
            assert!(lines[8].contains(&result.last_hash));
            (
                result.first_seq,
                result.last_seq,
                result.lines,
                result.repeated,
            )
        });
        assert_eq!(
            counts,
            [(1, 9, 9, 0), (5, 9, 5, 0), (1, 9, 9, 3), (1, 9, 9, 0)]
        );
    }

    #[test]
    fn missing_changed_and_foreign_lines_are_reported() {
        let mut lines = chain(9);
        lines[4] = lines[4].replace("\"a\":5", "\"a\":6");
        lines.remove(7);
        let mut other = ChainHead::default();
        let mut foreign = Vec::new();
        other.append_line(&mut foreign, b"\"b\":1");
        lines.push(String::from_utf8(foreign).unwrap());

        let result = verify(&lines);

        let expected = [
            CopyProblem::Changed { number: 5 },
            CopyProblem::Conflict { number: 9, seq: 1 },
            CopyProblem::Missing { first: 5, last: 5 },
            CopyProblem::Missing { first: 8, last: 8 },
        ];
        assert_eq!(result.problems, expected);
        assert_eq!((result.lines, result.problem_count), (7, 4));
    }

    #[test]
    fn a_masked_line_is_verified_by_its_position_only() {
        let mut lines = chain(3);
        lines[1] = lines[1].replace("\"a\":2", "\"masked\":[\"/a\"]");
        let result = verify(&lines);
        assert_eq!((result.masked, result.problem_count), (1, 0));

        lines[1] = lines[1].replace("\"seq\":2", "\"seq\":3");
        assert!(verify(&lines).problem_count > 0);
    }

    #[test]
    fn a_line_is_masked_only_if_its_listed_fields_are_absent_or_hashes() {
        let hash = "0".repeat(64);
        let line = |fields: &str| {
            let mut lines = chain(3);
            lines[1] = lines[1].replace("\"a\":2", fields);
            verify(&lines)
        };
        for masked in [
            format!(r#""a":"{hash}","masked":["/a"]"#),
            r#""b":[{},{"d":1}],"masked":["/b/*/c","/a"]"#.to_owned(),
            format!(r#""b":[{{"c":"{hash}"}}],"masked":["/b/*/c"]"#),
        ] {
            let result = line(&masked);
            assert_eq!((result.masked, result.problem_count), (1, 0), "{masked}");
        }
        for changed in [
            r#""a":3,"masked":["/a"]"#,
            r#""a":"x","masked":["/a"]"#,
            r#""a":{},"masked":["/a"]"#,
            r#""b":[{},{"c":1}],"masked":["/b/*/c"]"#,
            r#""a":3,"masked":["/seq"]"#,
            r#""a":3,"masked":["/nothing"]"#,
            r#""masked":["/a",1]"#,
            r#""masked":["a"]"#,
            r#""masked":{}"#,
        ] {
            let problems = line(changed).problems;
            assert_eq!(problems[0], CopyProblem::Changed { number: 2 }, "{changed}");
        }
    }

    #[test]
    fn a_line_of_another_chain_is_not_linked() {
        let lines = chain(3);
        let mut head = ChainHead {
            seq: 1,
            hash: "f".repeat(64),
        };
        let mut foreign = Vec::new();
        head.append_line(&mut foreign, b"\"a\":2");
        let copy = [lines[0].clone(), String::from_utf8(foreign).unwrap()];

        assert_eq!(
            verify(&copy).problems,
            [CopyProblem::Unlinked { number: 2, seq: 2 }]
        );
    }

    #[test]
    fn each_line_that_is_not_of_a_log_counts_as_changed() {
        let result = verify_copy("\n[]\n\"x\n".as_bytes(), &[]).unwrap();

        let changed = [2, 3].map(|number| CopyProblem::Changed { number });
        assert_eq!(
            (result.lines, result.problems.as_slice()),
            (0, changed.as_slice())
        );
    }
}
