//! Callers: authentication, grants, budgets, sessions and requests of browsers.

mod browsers;
mod budgets;
mod certificates;
mod grants;
mod keys;
mod secrecy;
mod sessions;
mod tokens;

use std::{convert::Infallible, fmt::Write, time::Duration};

use data_encoding::HEXLOWER;
use futures_util::{future::join_all, stream};
use sha2::{Digest, Sha256};

use crate::harness::{Agent, assert_refused};

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

/// Sends a request of 40,000 tokens from each agent at once, with a body of unknown size. Checks
/// that a quota of 60,000 tokens admits one of them, and another one only if it is the last.
pub async fn assert_late_sizes_count(agents: &[Agent], path: &str, body: &[u8]) {
    let calls = agents.iter().map(|agent| async move {
        let body = body.to_vec();
        let late = stream::once(async move {
            tokio::time::sleep(Duration::from_millis(500)).await;
            Ok::<_, Infallible>(body)
        });
        agent.post(path, reqwest::Body::wrap_stream(late)).await
    });
    let answers = join_all(calls).await;

    let (admitted, refused): (Vec<_>, Vec<_>) =
        answers.iter().partition(|answer| answer.status == 200);
    assert!((1..=2).contains(&admitted.len()), "{}", admitted.len());
    for answer in refused {
        assert_refused(answer, 429, "TOKEN_QUOTA_EXCEEDED");
    }
}

fn sha256(text: &str) -> String {
    HEXLOWER.encode(&Sha256::digest(text))
}
