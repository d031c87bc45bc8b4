//! Callers: authentication, grants, budgets, sessions and requests of browsers.

mod browsers;
mod budgets;
mod certificates;
mod grants;
mod keys;
mod secrecy;
mod sessions;
mod tokens;

use std::fmt::Write;

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

/// Returns the config of callers: their names and further settings. The key of each is its name
/// followed by `-key`.
pub fn auth(callers: &[(&str, &str)]) -> String {
    let mut text = "auth:\n  keys:\n".to_owned();
    for (name, more) in callers {
        let sha256 = sha256(&format!("{name}-key"));
        let line = format!("    - {{ name: {name}, sha256: {sha256}{more} }}\n");
        text.write_str(&line).unwrap();
    }
    text
}

fn sha256(text: &str) -> String {
    HEXLOWER.encode(&Sha256::digest(text))
}
