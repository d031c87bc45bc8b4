//! Raw requests that no HTTP client would send.

use std::net::SocketAddr;

use serde_json::Value;

use super::send_and_read_bytes;

/// The first response on a connection.
#[derive(Debug)]
pub struct Raw {
    /// 0 if there was no response.
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Raw {
    /// Sends these bytes and reads until the connection is closed.
    pub async fn send(addr: SocketAddr, bytes: &[u8]) -> Self {
        let answer = send_and_read_bytes(addr, bytes).await;
        let end = answer.windows(4).position(|window| window == b"\r\n\r\n");
        let end = end.map_or(answer.len(), |start| start + 4);
        let head = String::from_utf8_lossy(&answer[..end]).into_owned();
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
        Self {
            status: status.unwrap_or_default(),
            head,
            body: answer[end..].to_vec(),
        }
    }

    /// Sends a POST request to a target, with these lines as headers.
    pub async fn post(addr: SocketAddr, target: &str, lines: &str, body: &[u8]) -> Self {
        let mut bytes = format!(
            "POST {target} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
             content-length: {}\r\n{lines}\r\n",
            body.len()
        )
        .into_bytes();
        bytes.extend(body);
        Self::send(addr, &bytes).await
    }

    /// Returns whether the response is successful and its body complete JSON.
    pub fn is_complete_json(&self) -> bool {
        self.status == 200 && serde_json::from_slice::<Value>(&self.body).is_ok()
    }

    /// Returns the reason of an error of the gateway itself, or the empty text.
    pub fn reason(&self) -> String {
        let body: Value = serde_json::from_slice(&self.body).unwrap_or_default();
        let info = &body["error"]["details"][0];
        let ours = info["domain"] == "hookgate" && body["error"]["code"] == self.status;
        let reason = info["reason"].as_str().filter(|_| ours);
        reason.unwrap_or_default().to_owned()
    }
}
