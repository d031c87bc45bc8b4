//! Lines on stderr of `serve`.

use std::fs;

use tempfile::TempDir;

use super::wait_for_exit;
use crate::harness::{ServerProcess, TEST_TIMEOUT, serve_command};

/// A config with a guard that fails open or closed.
fn write_config(folder: &TempDir, on_failure: &str) {
    let config = format!(
        "upstreams: {{ gemini: {{ url: \"http://127.0.0.1:1\" }} }}\nlog: {{ format: json }}\n\
         hooks:\n  BeforeModel:\n    - hooks: [{{ name: guard, command: cat, on_failure: {on_failure} }}]\n"
    );
    fs::write(folder.path().join("hookgate.yaml"), config).unwrap();
}

#[tokio::test]
async fn an_empty_filter_variable_is_as_good_as_none() {
    let folder = TempDir::new().unwrap();
    write_config(&folder, "closed");
    let mut command = serve_command(folder.path());
    command.env("HOOKGATE_LOG", "");
    let mut served = ServerProcess::start(command);
    served.addr();
    served.terminate();

    let (_, log) = wait_for_exit(served, TEST_TIMEOUT).await;

    assert!(log.contains("shutting down"), "{log}");
}
