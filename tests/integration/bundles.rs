//! Policy bundles: building, signing, publishing, replicas and layers.

mod capabilities;
mod commands;
mod layers;
mod log_lines;
mod refusals;
mod replicas;
mod server;

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use crate::harness::run;

/// Writes a folder of policies: a hook that denies prompts with `word`, its proof and a test of it.
fn write_policies(folder: &Path, name: &str, word: &str) {
    let write = |path: &str, text: String| fs::write(folder.join(path), text).unwrap();
    fs::create_dir_all(folder.join("hooks")).unwrap();
    fs::create_dir_all(folder.join("tests")).unwrap();
    write(
        "hookgate.yaml",
        format!(
            "hooks:\n  BeforeModel:\n    - hooks:\n        - name: {name}\n\
             \x20         command: ./hooks/{name}.sh\n          on_failure: closed\n\
             \x20         must_deny: [{{ prompt: \"a {word}\" }}]\n"
        ),
    );
    write(
        &format!("hooks/{name}.sh"),
        format!("#!/bin/sh\nif grep -q {word}; then echo \"no {word}\" >&2; exit 2; fi\n"),
    );
    let script = folder.join(format!("hooks/{name}.sh"));
    fs::set_permissions(script, fs::Permissions::from_mode(0o755)).unwrap();
    write(
        "tests/words.yaml",
        format!(
            "config: ../hookgate.yaml\ncases:\n  - name: {word} is denied\n\
             \x20   request: {{ contents: [{{ role: user, parts: [{{ text: \"a \
             {word}\" }}] }}] }}\n    expect: {{ verdict: deny, reason: no {word} }}\n"
        ),
    );
}

/// Runs a command of `hookgate bundle` that must succeed; returns its output.
fn bundle(folder: &Path, arguments: &[&str]) -> String {
    let (code, out, err) = try_bundle(folder, arguments);
    assert_eq!(code, 0, "{arguments:?}: {out}{err}");
    out
}

/// Runs a command of `hookgate bundle`; returns its exit code and outputs.
fn try_bundle(folder: &Path, arguments: &[&str]) -> (i32, String, String) {
    let mut command = vec!["bundle"];
    command.extend(arguments);
    run(&command, folder)
}

/// Generates a key file; returns its public key.
fn new_key(folder: &Path, file: &str) -> String {
    let out = bundle(folder, &["key", "-o", file]);
    out.lines().last().unwrap().to_owned()
}
