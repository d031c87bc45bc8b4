//! Streaming responses: SSE framing, keep-alives, back-pressure, disconnects and truncation.

use std::{
    io::Write,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use flate2::{Compression, write::GzEncoder};
use http::{HeaderValue, StatusCode};
use serde_json::{Value, json};
use tokio::{
    io::AsyncWriteExt,
    net::TcpStream,
    sync::{Notify, mpsc},
};

use crate::harness::{
    End, TEST_TIMEOUT, TestGateway, Upstream, chunked_head, event_data, eventually, next_chunk,
    prompt, read_to_end, respond, wait_for_signal, wait_until_closed, write_chunk,
    write_last_chunk,
};

const SSE: &str = "/v1beta/models/m:streamGenerateContent?alt=sse";
const ARRAY: &str = "/v1beta/models/m:streamGenerateContent";

/// Config of a hook that receives every chunk and changes nothing.
const HOOKED: &str = "hooks: { AfterModel: [{ hooks: [{ command: cat > /dev/null }] }] }";

fn chunk(text: &str) -> String {
    json!({ "candidates": [{ "content": { "role": "model", "parts": [{ "text": text }] } }] })
        .to_string()
}

fn event(text: &str) -> String {
    format!("data: {}\r\n\r\n", chunk(text))
}

fn body() -> String {
    prompt("hello").to_string()
}

/// Starts an upstream that sends `text` in HTTP chunks of `size` bytes.
async fn upstream_in_chunks(text: &str, size: usize) -> Upstream {
    let text = text.to_owned();
    Upstream::raw(move |_, mut socket| {
        let text = text.clone();
        async move {
            let head = chunked_head("text/event-stream");
            socket.write_all(head.as_bytes()).await.unwrap();
            for piece in text.as_bytes().chunks(size) {
                write_chunk(&mut socket, piece).await.unwrap();
            }
            write_last_chunk(&mut socket).await;
        }
    })
    .await
}

#[tokio::test]
async fn every_form_of_sse_is_read_and_written_in_one_form() {
    let (one, two) = (chunk("Grüße 😀"), chunk("two"));
    let (head, tail) = one.split_at(one.find('[').unwrap());
    let forms = [
        format!("data: {one}\r\n\r\ndata: {two}\r\n\r\n"),
        format!("data: {one}\n\ndata: {two}\n\n"),
        format!("data: {one}\r\rdata: {two}\r\r"),
        format!("\u{feff}data:{one}\n\n\n\ndata:{two}\n\n"),
        format!(
            ": hi\r\n\r\nevent: x\r\nid: 7\r\nretry: 9\r\ndata: {one}\r\n\r\n: hi\r\ndata: {two}\r\n\r\n"
        ),
        format!("data: {head}\ndata: {tail}\n\ndata: {two}\n\ndata: [DONE]\n\n"),
    ];
    let in_sizes = |form| [(form, 1), (form, 7), (form, 9999)];
    for (form, size) in forms.iter().flat_map(in_sizes) {
        let upstream = upstream_in_chunks(form, size).await;
        let gate = TestGateway::start(&upstream, HOOKED).await;

        let answer = gate.agent().post(SSE, body()).await;

        // A line break inside of JSON is white space, and becomes a space.
        let first = if form.contains(&one) {
            one.clone()
        } else {
            format!("{head} {tail}")
        };
        let expected = format!("data: {first}\r\n\r\ndata: {two}\r\n\r\n");
        assert_eq!(answer.text(), expected, "{form:?} cut every {size}");
        assert_eq!(answer.header("content-type"), "text/event-stream");
    }
}

#[tokio::test]
async fn a_stream_without_hooks_passes_byte_for_byte() {
    let odd = "\u{feff}: hi\n\nevent: x\ndata: no JSON 😀\r\rdata: [DONE]\n";
    for size in [1, 7, 9999] {
        let upstream = upstream_in_chunks(odd, size).await;
        let gate = TestGateway::start(&upstream, "").await;

        let answer = gate.agent().post(SSE, body()).await;

        assert_eq!(answer.text(), odd);
    }
}

#[tokio::test]
async fn an_event_over_the_limit_breaks_the_stream() {
    let text = event("good") + &event(&"x".repeat(5000)) + &event("never");
    let upstream = upstream_in_chunks(&text, 1000).await;
    let config = format!("limits: {{ event: 4KiB }}\n{HOOKED}");
    let gate = TestGateway::start(&upstream, &config).await;

    let mut answer = gate.agent().open(SSE, body()).await;

    let (text, end) = read_to_end(&mut answer).await;
    // Bytes in flight may be lost when a connection breaks.
    assert!(event("good").starts_with(&text), "{text}");
    assert_eq!(end, End::Broken);
}

/// Starts a gateway whose hook on `event` waits until the test writes the file `go`, and then
/// prints `output`.
async fn gateway_with_waiting_hook(
    upstream: &Upstream,
    event: &str,
    output: &str,
    more_config: &str,
) -> TestGateway {
    let config = format!(
        "timeouts: {{ keep_alive: 200ms }}\n{more_config}\n\
         hooks: {{ {event}: [{{ hooks: [{{ command: \
         \"cat > /dev/null; until [ -e go ]; do sleep 0.02; done; cat says\" }}] }}] }}"
    );
    TestGateway::with_files(upstream, &config, &[("says", output)]).await
}

fn release_hook(gate: &TestGateway) {
    std::fs::write(gate.path("go"), "").unwrap();
}

#[tokio::test]
async fn keep_alives_are_sent_while_a_hook_runs() {
    for event in ["BeforeModel", "AfterModel"] {
        let upstream = Upstream::mock().await;
        let gate = gateway_with_waiting_hook(&upstream, event, "", "").await;

        let mut answer = gate.agent().open(SSE, body()).await;
        assert_eq!(answer.status(), StatusCode::OK);
        assert_eq!(answer.headers()["content-type"], "text/event-stream");
        assert_eq!(next_chunk(&mut answer).await, "\r\n", "{event}");
        assert_eq!(next_chunk(&mut answer).await, "\r\n", "{event}");
        assert_eq!(
            upstream.requests().len(),
            usize::from(event == "AfterModel")
        );
        release_hook(&gate);
        let (text, end) = read_to_end(&mut answer).await;

        assert_eq!(end, End::Clean);
        let texts = event_data(&text).into_iter().map(chunk_text);
        assert_eq!(texts.collect::<String>(), "You said: hello", "{event}");
    }
}

fn chunk_text(data: &str) -> String {
    let chunk: Value = serde_json::from_str(data).unwrap();
    let text = &chunk["candidates"][0]["content"]["parts"][0]["text"];
    text.as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_denial_after_keep_alives_is_a_message_in_every_config() {
    for path in [SSE, ARRAY] {
        let upstream = Upstream::mock().await;
        let output = r#"{"decision":"deny","reason":"not today"}"#;
        let gate =
            gateway_with_waiting_hook(&upstream, "BeforeModel", output, "denials: error").await;

        let mut answer = gate.agent().open(path, body()).await;
        assert_eq!(answer.status(), StatusCode::OK);
        assert_eq!(next_chunk(&mut answer).await, "\r\n");
        release_hook(&gate);
        let (text, end) = read_to_end(&mut answer).await;

        assert_eq!(end, End::Clean);
        let chunks: Vec<Value> = if path == SSE {
            let data = event_data(&text).into_iter();
            data.map(|chunk| serde_json::from_str(chunk).unwrap())
                .collect()
        } else {
            serde_json::from_str(&text).unwrap()
        };
        assert_eq!(chunks.len(), 1, "{text}");
        let candidate = &chunks[0]["candidates"][0];
        assert_eq!(candidate["content"]["parts"][0]["text"], "not today");
        assert_eq!(candidate["finishReason"], "STOP");
        assert!(upstream.requests().is_empty());
    }
}

#[tokio::test]
async fn keep_alives_are_never_inside_an_event_that_no_hook_inspects() {
    let rest_is_due = Arc::new(Notify::new());
    let due = Arc::clone(&rest_is_due);
    let upstream = Upstream::raw(move |_, mut socket| {
        let due = Arc::clone(&due);
        async move {
            let head = chunked_head("text/event-stream");
            socket.write_all(head.as_bytes()).await.unwrap();
            let event = event("hello");
            let (first, rest) = event.split_at(20);
            write_chunk(&mut socket, first.as_bytes()).await.unwrap();
            due.notified().await;
            write_chunk(&mut socket, rest.as_bytes()).await.unwrap();
            write_last_chunk(&mut socket).await;
        }
    })
    .await;
    let gate = gateway_with_waiting_hook(&upstream, "BeforeModel", "", "").await;

    let mut answer = gate.agent().open(SSE, body()).await;
    assert_eq!(next_chunk(&mut answer).await, "\r\n");
    release_hook(&gate);
    eventually("upstream is called", TEST_TIMEOUT, || {
        upstream.connections() == 1
    })
    .await;
    for _ in 0..3 {
        assert_eq!(next_chunk(&mut answer).await, "\r\n");
    }
    rest_is_due.notify_one();
    let (text, end) = read_to_end(&mut answer).await;

    assert_eq!(end, End::Clean);
    assert_eq!(text.trim_start(), event("hello"));
}

#[tokio::test]
async fn a_compressed_answer_is_decoded_if_its_headers_are_not_sent() {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(event("hello").as_bytes()).unwrap();
    let zipped = encoder.finish().unwrap();
    let upstream = Upstream::with(move |_| {
        let mut response = respond(200, "text/event-stream", zipped.clone());
        let gzip = HeaderValue::from_static("gzip");
        response.headers_mut().insert("content-encoding", gzip);
        response
    })
    .await;
    let gate = gateway_with_waiting_hook(&upstream, "BeforeModel", "", "").await;

    let mut answer = gate.agent().open(SSE, body()).await;
    assert_eq!(next_chunk(&mut answer).await, "\r\n");
    release_hook(&gate);
    let (text, end) = read_to_end(&mut answer).await;

    assert_eq!(end, End::Clean);
    assert_eq!(text.trim_start(), event("hello"));
}

#[tokio::test]
async fn an_upstream_error_after_keep_alives_breaks_the_stream() {
    let error = r#"{"error":{"code":500,"message":"oh","status":"INTERNAL"}}"#;
    let upstream = Upstream::with(move |_| respond(500, "application/json", error)).await;
    let gate = gateway_with_waiting_hook(&upstream, "BeforeModel", "", "").await;

    let mut answer = gate.agent().open(SSE, body()).await;
    assert_eq!(answer.status(), StatusCode::OK);
    assert_eq!(next_chunk(&mut answer).await, "\r\n");
    release_hook(&gate);
    let (text, end) = read_to_end(&mut answer).await;

    assert_eq!((text.trim(), end), ("", End::Broken));
}

#[tokio::test]
async fn an_agent_that_does_not_read_causes_back_pressure_on_upstream() {
    for config in ["", HOOKED] {
        let sent = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&sent);
        let upstream =
            Upstream::raw(move |_, socket| write_endless_stream(socket, Arc::clone(&counter)))
                .await;
        let gate = TestGateway::start(&upstream, config).await;

        let mut answer = gate.agent().open(SSE, body()).await;
        let stalled = stalled_value(&sent).await;
        assert!(stalled < 48 << 20, "{stalled} bytes wait for the agent");
        let mut read = 0;
        while read <= stalled {
            read += next_chunk(&mut answer).await.len();
        }

        assert!(sent.load(Ordering::Relaxed) > stalled);
    }
}

/// Writes events until the connection is closed.
async fn write_endless_stream(mut socket: TcpStream, sent: Arc<AtomicUsize>) {
    let head = chunked_head("text/event-stream");
    socket.write_all(head.as_bytes()).await.unwrap();
    let event = event(&"x".repeat(1 << 20));
    while write_chunk(&mut socket, event.as_bytes()).await.is_ok() {
        sent.fetch_add(event.len(), Ordering::Relaxed);
    }
}

/// Waits until a counter is unchanged for half a second, and returns its value.
async fn stalled_value(count: &AtomicUsize) -> usize {
    let (mut last, mut same) = (0, 0);
    eventually("the counter stalls", Duration::from_secs(20), || {
        let now = count.load(Ordering::Relaxed);
        same = if now == last && now > 0 { same + 1 } else { 0 };
        last = now;
        same >= 50
    })
    .await;
    last
}

/// Starts an upstream that sends `events`, and then reports the end of the connection.
async fn upstream_that_waits_for_disconnect(
    events: &[&str],
) -> (Upstream, mpsc::UnboundedReceiver<()>) {
    let (disconnected, disconnects) = mpsc::unbounded_channel();
    let text: String = events.iter().map(|data| event(data)).collect();
    let upstream = Upstream::raw(move |_, mut socket| {
        let (disconnected, text) = (disconnected.clone(), text.clone());
        async move {
            let head = chunked_head("text/event-stream");
            socket.write_all(head.as_bytes()).await.unwrap();
            write_chunk(&mut socket, text.as_bytes()).await.unwrap();
            wait_until_closed(&mut socket).await;
            disconnected.send(()).unwrap();
        }
    })
    .await;
    (upstream, disconnects)
}

#[tokio::test]
async fn a_denial_within_a_stream_is_the_last_event_and_ends_the_upstream_call() {
    let (upstream, mut disconnects) =
        upstream_that_waits_for_disconnect(&["one", "two SECRET", "three"]).await;
    let hook = r#"grep -q '"text":"[^"]*SECRET' && echo '{"decision":"deny","reason":"no secrets"}'; true"#;
    let gate = TestGateway::with_files(
        &upstream,
        "hooks: { AfterModel: [{ hooks: [{ command: bash guard.sh }] }] }",
        &[("guard.sh", hook)],
    )
    .await;

    let mut answer = gate.agent().open(SSE, body()).await;
    let (text, end) = read_to_end(&mut answer).await;

    assert_eq!(end, End::Clean);
    let data = event_data(&text);
    assert_eq!(data.len(), 2, "{text}");
    assert_eq!(data[0], chunk("one"));
    assert_eq!(chunk_text(data[1]), "\n\nno secrets");
    let last: Value = serde_json::from_str(data[1]).unwrap();
    assert_eq!(last["candidates"][0]["finishReason"], "STOP");
    wait_for_signal(&mut disconnects, "the end of the call to upstream").await;
}

#[tokio::test]
async fn a_disconnected_agent_ends_the_upstream_call() {
    for config in ["", HOOKED] {
        let (upstream, mut disconnects) = upstream_that_waits_for_disconnect(&["one"]).await;
        let gate = TestGateway::start(&upstream, config).await;

        let mut answer = gate.agent().open(SSE, body()).await;
        assert_eq!(next_chunk(&mut answer).await, event("one"));
        assert!(disconnects.try_recv().is_err());
        drop(answer);

        wait_for_signal(&mut disconnects, "the end of the call to upstream").await;
    }
}

#[tokio::test]
async fn a_stream_over_the_idle_timeout_breaks() {
    for hooks in ["", HOOKED] {
        let (upstream, mut disconnects) = upstream_that_waits_for_disconnect(&["one"]).await;
        let config = format!("timeouts: {{ stream_idle: 200ms }}\n{hooks}");
        let gate = TestGateway::start(&upstream, &config).await;

        let mut answer = gate.agent().open(SSE, body()).await;
        let (text, end) = read_to_end(&mut answer).await;

        assert_eq!((text, end), (event("one"), End::Broken));
        wait_for_signal(&mut disconnects, "the end of the call to upstream").await;
    }
}

/// Starts an upstream that sends the beginning of a response, and disconnects when notified.
async fn truncating_upstream() -> (Upstream, Arc<Notify>) {
    let disconnect = Arc::new(Notify::new());
    let notified = Arc::clone(&disconnect);
    let upstream = Upstream::raw(move |asked, mut socket| {
        let notified = Arc::clone(&notified);
        async move {
            let (media_type, text) = beginning(&asked.query);
            let head = chunked_head(media_type);
            socket.write_all(head.as_bytes()).await.unwrap();
            write_chunk(&mut socket, text.as_bytes()).await.unwrap();
            notified.notified().await;
        }
    })
    .await;
    (upstream, disconnect)
}

fn beginning(query: &str) -> (&'static str, String) {
    match query {
        "alt=sse" => ("text/event-stream", event("one")),
        _ => ("application/json", format!("[{}", chunk("one"))),
    }
}

#[tokio::test]
async fn an_upstream_that_disconnects_breaks_the_stream() {
    let cases = [("", SSE), ("", ARRAY), (HOOKED, SSE), (HOOKED, ARRAY)];
    for (hooks, path) in cases {
        let (upstream, disconnect) = truncating_upstream().await;
        let gate = TestGateway::start(&upstream, hooks).await;

        let mut answer = gate.agent().open(path, body()).await;
        let first = next_chunk(&mut answer).await;
        disconnect.notify_one();
        let (text, end) = read_to_end(&mut answer).await;

        let query = path.split_once('?').map_or("", |parts| parts.1);
        assert_eq!(first, beginning(query).1);
        assert_eq!(
            (text.as_str(), end),
            ("", End::Broken),
            "{path} with {hooks:?}"
        );
    }
}

#[tokio::test]
async fn a_json_array_instead_of_sse_is_converted_to_events() {
    let upstream = Upstream::raw(|_, mut socket| async move {
        let head = chunked_head("application/json");
        socket.write_all(head.as_bytes()).await.unwrap();
        let array = format!("[{},\n{}]", chunk("one"), chunk("two"));
        write_chunk(&mut socket, array.as_bytes()).await.unwrap();
        write_last_chunk(&mut socket).await;
    })
    .await;
    let gate = TestGateway::start(&upstream, HOOKED).await;

    let answer = gate.agent().post(SSE, body()).await;

    assert_eq!(answer.text(), event("one") + &event("two"));
    assert_eq!(answer.header("content-type"), "text/event-stream");
}
