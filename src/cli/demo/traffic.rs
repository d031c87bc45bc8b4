//! Traffic of the demo, so that every page of the console shows something.

use std::time::Duration;

use http::header;

use crate::service_client::client_builder;

/// Time for each request. The mock answers at once, and hooks have five seconds.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Requests in order, one per line: path and body. Lines that begin with `#` are comments.
const REQUESTS: &str = include_str!("traffic.txt");

/// Sends a few calls and events to the gateway at `base`. Failures show in the console, too.
pub(super) async fn send_traffic(base: &str) {
    let client = client_builder()
        .tls_certs_only([])
        .timeout(REQUEST_TIMEOUT)
        .build();
    let Ok(client) = client else {
        return;
    };
    let lines = REQUESTS.lines().filter(|line| !line.starts_with('#'));
    for (path, body) in lines.filter_map(|line| line.split_once(' ')) {
        let request = client
            .post(format!("{base}{path}"))
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::USER_AGENT, "hookgate-demo")
            .body(body);
        if let Ok(response) = request.send().await {
            // The body is read to its end, so that the call is complete.
            drop(response.bytes().await);
        }
    }
}
