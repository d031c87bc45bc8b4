//! Who calls: how callers are known, what each may use, and that no other gets
//! in.

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

/// The callers of a config, each with a key that is its name and `-key`, and with
/// what else its line says.
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
