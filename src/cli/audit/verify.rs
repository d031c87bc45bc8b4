//! Verifies the files of an audit log, or a copy of it.

use std::{io, path::Path};

use chained_log::Verification;
use serde_json::Value;

use crate::{
    cli::{failure::Failure, output::print},
    config::MASKABLE_FIELDS,
};

/// Digits of a line's hash (SHA-256).
const HASH_DIGITS: usize = 64;

/// Reads the hash of a line, of which each digit counts.
pub(super) fn parse_hash(text: &str) -> Result<String, String> {
    let is_hash = text.len() == HASH_DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let hash = is_hash.then(|| text.to_ascii_lowercase());
    hash.ok_or_else(|| format!("must have {HASH_DIGITS} hexadecimal digits"))
}

/// Verifies the hash chain, and that a line has the hash `contains`.
pub(super) fn verify_files(path: &Path, contains: Option<&str>) -> Result<(), Failure> {
    let verified = chained_log::verify(path)?;
    if let Some(hash) = contains {
        check_contains(path, hash)?;
    }
    Ok(print(&summary(&verified))?)
}

/// Verifies a copy of a log, and prints what is wrong with it.
pub(super) fn verify_stdin() -> Result<(), Failure> {
    let copy = chained_log::verify_copy(io::stdin().lock(), MASKABLE_FIELDS);
    let copy = copy.map_err(Failure::of)?;
    if copy.lines == 0 && copy.problem_count == 0 {
        let message = "the copy is empty: there is no line to verify";
        return Err(Failure::Failed(message.to_owned()));
    }
    let mut text = format!(
        "{} lines from {} to {}, the last hash is {}; {} lines are repeated",
        copy.lines, copy.first_seq, copy.last_seq, copy.last_hash, copy.repeated
    );
    if copy.masked > 0 {
        let masked = copy.masked;
        text = format!("{text}; of {masked} lines with masked fields only the place is verified");
    }
    if copy.problem_count == 0 && copy.lines > 0 {
        return Ok(print(&format!("the hash chain is valid: {text}"))?);
    }
    let mut message: Vec<String> = copy.problems.iter().map(ToString::to_string).collect();
    let further = copy.problem_count - copy.problems.len() as u64;
    if further > 0 {
        message.push(format!("and {further} further problems"));
    }
    message.push(format!("the copy is not intact: {text}"));
    Err(Failure::Failed(message.join("\n")))
}

/// Fails if no line has this hash.
fn check_contains(path: &Path, hash: &str) -> Result<(), Failure> {
    for line in chained_log::lines(path)? {
        let line = line?;
        if line.is_complete && line.json()?.get("hash").and_then(Value::as_str) == Some(hash) {
            return Ok(());
        }
    }
    let path = path.display();
    Err(Failure::Failed(format!(
        "{path}: no line has the hash `{hash}`: the log was truncated, or the hash is not of this log"
    )))
}

fn summary(verified: &Verification) -> String {
    let first = verified.first_seq;
    let mut text = format!(
        "the hash chain is valid: {} lines, the last hash is {}",
        verified.lines, verified.last_hash
    );
    if first > 1 {
        let before = first - 1;
        text = format!("{text}; {before} lines before line {first} are not in these files");
    }
    if verified.has_incomplete_line {
        text.push_str("; one line is being written");
    }
    text
}
