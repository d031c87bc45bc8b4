//! Configured headers for the model API.

use crate::harness::{TestGateway, Upstream, prompt};

use super::{GENERATE, HOOK};

const CONFIG: &str = "upstreams: { gemini: { url: \"{upstream}\", \
    headers: { X-Org: acme, x-org-token: { file: token } }, \
    forward_headers: [X-Team, x-other] } }\n";

#[tokio::test]
async fn configured_headers_are_added_and_forwarded_ones_pass() {
    for hooks in ["", HOOK] {
        let upstream = Upstream::mock().await;
        let config = CONFIG.to_owned() + hooks;
        let files = [("token", "org-token-4711\n")];
        let gateway = TestGateway::with_files(&upstream, &config, &files).await;
        let agent = gateway
            .agent()
            .sending("x-org", "forged")
            .sending("x-team", "blue")
            .sending("x-unlisted", "no");

        let answer = agent.post(GENERATE, prompt("hi").to_string()).await;

        assert_eq!(answer.status, 200);
        let asked = upstream.only_request();
        assert_eq!(asked.header("x-org"), "acme");
        assert_eq!(asked.header("x-org-token"), "org-token-4711");
        assert_eq!(asked.header("x-team"), "blue");
        assert_eq!(asked.header("x-unlisted"), "");
        assert_eq!(asked.header("x-other"), "");
    }
}
