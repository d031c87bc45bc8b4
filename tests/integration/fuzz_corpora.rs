//! Fuzz targets without a fuzzer: each runs on its corpus and on random edits of it.
//!
//! `fuzz/run` searches for inputs by coverage. Its build takes longer than all tests.

#[path = "../../fuzz/src/lib.rs"]
mod targets;

use std::{fs, panic::catch_unwind, path::Path};

use proptest::{
    collection::vec,
    prelude::*,
    sample::{Index, select},
    test_runner::{Config, TestError, TestRunner},
};

/// Edited inputs of each target.
const EDITED_INPUTS: u32 = 4000;

/// A mutation of an input.
#[derive(Debug, Clone)]
enum Edit {
    Replace(Index, u8),
    Remove(Index, Index),
    Insert(Index, Vec<u8>),
    /// Continues with the end of another input.
    Splice(Index, Vec<u8>, Index),
}

impl Edit {
    fn apply(&self, bytes: &mut Vec<u8>) {
        let position = |index: &Index, bytes: &[u8]| index.index(bytes.len() + 1);
        match self {
            Self::Replace(at, byte) => {
                let at = position(at, bytes);
                if let Some(replaced) = bytes.get_mut(at) {
                    *replaced = *byte;
                }
            }
            Self::Remove(one, other) => {
                let (one, other) = (position(one, bytes), position(other, bytes));
                bytes.drain(one.min(other)..one.max(other));
            }
            Self::Insert(at, inserted) => {
                let at = position(at, bytes);
                bytes.splice(at..at, inserted.iter().copied());
            }
            Self::Splice(at, other, from) => {
                bytes.truncate(position(at, bytes));
                bytes.extend_from_slice(&other[position(from, other)..]);
            }
        }
    }
}

fn edits(corpus: Vec<Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let other = select(corpus.clone());
    let edit = prop_oneof![
        (any::<Index>(), any::<u8>()).prop_map(|(at, byte)| Edit::Replace(at, byte)),
        any::<(Index, Index)>().prop_map(|(one, other)| Edit::Remove(one, other)),
        (any::<Index>(), vec(any::<u8>(), 1..8)).prop_map(|(at, bytes)| Edit::Insert(at, bytes)),
        (any::<Index>(), other, any::<Index>())
            .prop_map(|(at, other, from)| Edit::Splice(at, other, from)),
    ];
    (select(corpus), vec(edit, 1..8)).prop_map(|(mut bytes, edits)| {
        for edit in edits {
            edit.apply(&mut bytes);
        }
        bytes
    })
}

/// Runs a target on its corpus and on edited inputs.
fn run(name: &str, target: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fuzz/corpus")
        .join(name);
    let mut corpus = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let input = fs::read(&path).unwrap();
        let result = catch_unwind(|| target(&input));
        assert!(result.is_ok(), "{} fails", path.display());
        corpus.push(input);
    }
    let config = Config {
        cases: EDITED_INPUTS,
        failure_persistence: None,
        ..Config::default()
    };
    let result = TestRunner::new(config).run(&edits(corpus), |input| {
        target(&input);
        Ok(())
    });
    match result {
        Err(TestError::Fail(reason, input)) => panic!("{reason}: b\"{}\"", input.escape_ascii()),
        other => other.unwrap(),
    }
}

macro_rules! targets {
    ($($name:ident,)*) => {$(
        #[test]
        fn $name() {
            run(stringify!($name), targets::$name::run);
        }
    )*};
}

targets! {
    answer_body,
    canonical_json,
    config,
    event_stream,
    gunzip,
    hook_output,
    matcher,
    path_query,
    recording,
    request_body,
    sse_reader,
    unzstd,
}
