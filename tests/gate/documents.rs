//! Files that must say what the code does.

use std::fs;

use hookgate::{app::ErrorReason, server::openapi};

fn read(file: &str) -> String {
    let path = format!("{}/{file}", env!("CARGO_MANIFEST_DIR"));
    fs::read_to_string(path).unwrap_or_else(|it| panic!("{file}: {it}"))
}

#[test]
fn the_openapi_document_is_that_of_the_code() {
    let written = read("openapi/hookgate.yaml");

    let made = openapi::to_yaml().unwrap();

    assert!(
        written.trim_end() == made.trim_end(),
        "renew it: cargo run -- openapi > openapi/hookgate.yaml"
    );
}

#[test]
fn every_error_reason_has_its_line_in_the_documentation() {
    let page = read("docs/errors.md");

    for reason in ErrorReason::ALL {
        let (status, canonical, word) = reason.parts();
        let line = page.lines().find(|it| it.contains(&format!("`{word}`")));
        let line = line.unwrap_or_else(|| panic!("docs/errors.md does not explain `{word}`"));
        assert!(line.contains(status.as_str()), "{status}: {line}");
        assert!(line.contains(canonical), "{canonical}: {line}");
    }
}
