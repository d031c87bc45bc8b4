//! A config: whatever is written is a config, or comes with its problems.

#![no_main]

use std::path::Path;

use hookgate::{config::Config, hook};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    // A config may name files, and some of those never end.
    if text.contains("dev") || text.contains("proc") {
        return;
    }
    match Config::parse(text, Path::new("nowhere/hookgate.yaml"), &hook::registry()) {
        Ok(config) => assert!(config.limits.body > 0),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
