//! The console on the admin listener: access, pages and their JSON.

mod access;
mod call_links;
mod call_page;
mod calls;
mod generated_tests;
mod live_access;
mod pages;
mod trials;

use crate::harness::{Browser, TestGateway, Upstream};

/// Users with one role each; the token of `vera` is `vera-token`.
const USERS: &str = "admin: { listen: 127.0.0.1:0, users: [
  { name: vera, token: { file: vera }, roles: [viewer] },
  { name: ivan, token: { file: ivan }, roles: [investigator] },
  { name: olga, token: { file: olga }, roles: [operator] }] }
";

const TOKENS: [(&str, &str); 3] = [
    ("vera", "vera-token"),
    ("ivan", "ivan-token"),
    ("olga", "olga-token"),
];

/// Starts a gateway with [`USERS`] and `config`.
async fn with_users(upstream: &Upstream, config: &str) -> TestGateway {
    TestGateway::with_files(upstream, &format!("{USERS}{config}"), &TOKENS).await
}

/// Returns a browser in which `user` is logged in.
async fn logged_in(gateway: &TestGateway, user: &str) -> Browser {
    let mut browser = Browser::at(gateway);
    let answer = browser.log_in(&format!("{user}-token"), "").await;
    assert_eq!(answer.status, 303, "{}", answer.html);
    browser
}
