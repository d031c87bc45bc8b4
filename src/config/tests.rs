//! What an operator can write, and what is said about mistakes.

use std::path::Path;

use insta::assert_snapshot;

use super::*;

const KNOWN: Known<'static> = Known {
    transports: &["command"],
    protocols: &["gemini"],
};

fn parse(text: &str) -> Result<Config, ConfigError> {
    Config::parse(text, Path::new("hookgate.yaml"), &KNOWN)
}

#[test]
fn five_mistakes_in_one_file_are_all_listed() {
    let text = "\
listen: localhost
upstreams:
  gemini: { url: ftp://example.org, api_key: sk-123 }
limits:
  body: lots
  hedaers: 1KiB
  in_flight: 0
timeouts: { idle: ~ }
denials: loud
hooks:
  BeforeModle: []
  BeforeModel:
    - hooks:
        - { type: plugin, comand: ./guard.sh, name: guard }
        - { command: ./a.sh, env: { 1-A: x, B: 2 }, timeout: soon, on_failure: maybe }
        - { command: '', document: yes }
hook_files:
  - { path: missing.json, protocol: semaphore }
";
    println!("{}", parse(text).unwrap_err());
    println!("{:#?}", parse("upstreams: {gemini: {url: http://a/}}\n"));
    println!(
        "{}",
        serde_json::to_string_pretty(&Config::schema(&KNOWN)).unwrap()
    );
}
