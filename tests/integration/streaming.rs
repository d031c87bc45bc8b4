//! Streams: what goes out, what keeps them open, and how they end.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use http::StatusCode;
use serde_json::{Value, json};
use tokio::{
    io::AsyncWriteExt,
    net::TcpStream,
    sync::{Notify, mpsc},
};

use crate::harness::{
    End, TestGateway, Upstream, chunked_head, closed, event_data, eventually, piece, prompt,
    respond, rest, signalled, write_chunk, write_last_chunk,
};

const SSE: &str = "/v1beta/models/m:streamGenerateContent?alt=sse";
const ARRAY: &str = "/v1beta/models/m:streamGenerateContent";

/// A hook that sees every chunk and says nothing.
const WATCHED: &str = "hooks: { AfterModel: [{ hooks: [{ command: cat > /dev/null }] }] }";

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

/// An upstream that answers with `text`, cut every `size` bytes.
async fn cut(text: &str, size: usize) -> Upstream {
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
async fn every_legal_form_is_read_and_goes_out_in_one_form() {
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
    for (form, size) in forms.iter().flat_map(|it| [(it, 1), (it, 7), (it, 9999)]) {
        let upstream = cut(form, size).await;
        let gate = TestGateway::start(&upstream, WATCHED).await;

        let answer = gate.agent().post(SSE, body()).await;

        // A line end inside of JSON is white space, and becomes a blank.
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
        let upstream = cut(odd, size).await;
        let gate = TestGateway::start(&upstream, "").await;

        let answer = gate.agent().post(SSE, body()).await;

        assert_eq!(answer.text(), odd);
    }
}

#[tokio::test]
async fn an_event_over_the_limit_breaks_the_stream() {
    let text = event("good") + &event(&"x".repeat(5000)) + &event("never");
    let upstream = cut(&text, 1000).await;
    let config = format!("limits: {{ event: 4KiB }}\n{WATCHED}");
    let gate = TestGateway::start(&upstream, &config).await;

    let mut answer = gate.agent().open(SSE, body()).await;

    let (text, end) = rest(&mut answer).await;
    // What is on its way when a connection breaks may be lost.
    assert!(event("good").starts_with(&text), "{text}");
    assert_eq!(end, End::Broken);
}

/// A gate whose hook on `event` waits until the test writes the file `go`, and
/// then prints the file `says`.
async fn waiting(upstream: &Upstream, event: &str, says: &str, more: &str) -> TestGateway {
    let config = format!(
        "timeouts: {{ keep_alive: 200ms }}\n{more}\n\
         hooks: {{ {event}: [{{ hooks: [{{ command: \
         \"cat > /dev/null; until [ -e go ]; do sleep 0.02; done; cat says\" }}] }}] }}"
    );
    TestGateway::with_files(upstream, &config, &[("says", says)]).await
}

fn go(gate: &TestGateway) {
    std::fs::write(gate.path("go"), "").unwrap();
}

#[tokio::test]
async fn a_slow_hook_is_waited_for_with_keep_alives() {
    for event in ["BeforeModel", "AfterModel"] {
        let upstream = Upstream::mock().await;
        let gate = waiting(&upstream, event, "", "").await;

        let mut answer = gate.agent().open(SSE, body()).await;
        assert_eq!(answer.status(), StatusCode::OK);
        assert_eq!(answer.headers()["content-type"], "text/event-stream");
        assert_eq!(piece(&mut answer).await, "\r\n", "{event}");
        assert_eq!(piece(&mut answer).await, "\r\n", "{event}");
        assert_eq!(upstream.seen().len(), usize::from(event == "AfterModel"));
        go(&gate);
        let (text, end) = rest(&mut answer).await;

        assert_eq!(end, End::Clean);
        let texts = event_data(&text).into_iter().map(text_of);
        assert_eq!(texts.collect::<String>(), "You said: hello", "{event}");
    }
}

fn text_of(data: &str) -> String {
    let chunk: Value = serde_json::from_str(data).unwrap();
    let text = &chunk["candidates"][0]["content"]["parts"][0]["text"];
    text.as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_late_denial_is_a_message_in_every_config() {
    for path in [SSE, ARRAY] {
        let upstream = Upstream::mock().await;
        let says = r#"{"decision":"deny","reason":"not today"}"#;
        let gate = waiting(&upstream, "BeforeModel", says, "denials: error").await;

        let mut answer = gate.agent().open(path, body()).await;
        assert_eq!(answer.status(), StatusCode::OK);
        assert_eq!(piece(&mut answer).await, "\r\n");
        go(&gate);
        let (text, end) = rest(&mut answer).await;

        assert_eq!(end, End::Clean);
        let chunks: Vec<Value> = if path == SSE {
            let data = event_data(&text).into_iter();
            data.map(|it| serde_json::from_str(it).unwrap()).collect()
        } else {
            serde_json::from_str(&text).unwrap()
        };
        assert_eq!(chunks.len(), 1, "{text}");
        let candidate = &chunks[0]["candidates"][0];
        assert_eq!(candidate["content"]["parts"][0]["text"], "not today");
        assert_eq!(candidate["finishReason"], "STOP");
        assert!(upstream.seen().is_empty());
    }
}

#[tokio::test]
async fn a_late_error_of_upstream_breaks_the_stream() {
    let error = r#"{"error":{"code":500,"message":"oh","status":"INTERNAL"}}"#;
    let upstream = Upstream::with(move |_| respond(500, "application/json", error)).await;
    let gate = waiting(&upstream, "BeforeModel", "", "").await;

    let mut answer = gate.agent().open(SSE, body()).await;
    assert_eq!(answer.status(), StatusCode::OK);
    assert_eq!(piece(&mut answer).await, "\r\n");
    go(&gate);
    let (text, end) = rest(&mut answer).await;

    assert_eq!((text.trim(), end), ("", End::Broken));
}

#[tokio::test]
async fn what_an_agent_does_not_read_is_not_asked_of_upstream() {
    for config in ["", WATCHED] {
        let sent = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&sent);
        let upstream = Upstream::raw(move |_, socket| endless(socket, Arc::clone(&counter))).await;
        let gate = TestGateway::start(&upstream, config).await;

        let mut answer = gate.agent().open(SSE, body()).await;
        let stalled = standstill(&sent).await;
        assert!(stalled < 48 << 20, "{stalled} bytes wait for the agent");
        let mut read = 0;
        while read <= stalled {
            read += piece(&mut answer).await.len();
        }

        assert!(sent.load(Ordering::Relaxed) > stalled);
    }
}

/// Writes events as long as somebody takes them.
async fn endless(mut socket: TcpStream, sent: Arc<AtomicUsize>) {
    let head = chunked_head("text/event-stream");
    socket.write_all(head.as_bytes()).await.unwrap();
    let event = event(&"x".repeat(1 << 20));
    while write_chunk(&mut socket, event.as_bytes()).await.is_ok() {
        sent.fetch_add(event.len(), Ordering::Relaxed);
    }
}

/// The count at which a counter stays for half a second.
async fn standstill(count: &AtomicUsize) -> usize {
    let (mut last, mut same) = (0, 0);
    eventually("a standstill", Duration::from_secs(20), || {
        let now = count.load(Ordering::Relaxed);
        same = if now == last && now > 0 { same + 1 } else { 0 };
        last = now;
        same >= 50
    })
    .await;
    last
}

/// An upstream that sends `events` and then waits for the end of the
/// connection, of which it gives a sign.
async fn lingering(events: &[&str]) -> (Upstream, mpsc::UnboundedReceiver<()>) {
    let (sign, signs) = mpsc::unbounded_channel();
    let text: String = events.iter().map(|it| event(it)).collect();
    let upstream = Upstream::raw(move |_, mut socket| {
        let (sign, text) = (sign.clone(), text.clone());
        async move {
            let head = chunked_head("text/event-stream");
            socket.write_all(head.as_bytes()).await.unwrap();
            write_chunk(&mut socket, text.as_bytes()).await.unwrap();
            closed(&mut socket).await;
            sign.send(()).unwrap();
        }
    })
    .await;
    (upstream, signs)
}

#[tokio::test]
async fn a_refusal_in_mid_stream_is_the_last_event_and_ends_the_call_to_upstream() {
    let (upstream, mut signs) = lingering(&["one", "two SECRET", "three"]).await;
    let hook = r#"grep -q '"text":"[^"]*SECRET' && echo '{"decision":"deny","reason":"no secrets"}'; true"#;
    let gate = TestGateway::with_files(
        &upstream,
        "hooks: { AfterModel: [{ hooks: [{ command: bash guard.sh }] }] }",
        &[("guard.sh", hook)],
    )
    .await;

    let mut answer = gate.agent().open(SSE, body()).await;
    let (text, end) = rest(&mut answer).await;

    assert_eq!(end, End::Clean);
    let data = event_data(&text);
    assert_eq!(data.len(), 2, "{text}");
    assert_eq!(data[0], chunk("one"));
    assert_eq!(text_of(data[1]), "no secrets");
    let last: Value = serde_json::from_str(data[1]).unwrap();
    assert_eq!(last["candidates"][0]["finishReason"], "STOP");
    signalled(&mut signs, "the end of the call to upstream").await;
}

#[tokio::test]
async fn an_agent_that_leaves_ends_the_call_to_upstream() {
    for config in ["", WATCHED] {
        let (upstream, mut signs) = lingering(&["one"]).await;
        let gate = TestGateway::start(&upstream, config).await;

        let mut answer = gate.agent().open(SSE, body()).await;
        assert_eq!(piece(&mut answer).await, event("one"));
        assert!(signs.try_recv().is_err());
        drop(answer);

        signalled(&mut signs, "the end of the call to upstream").await;
    }
}

#[tokio::test]
async fn a_silent_upstream_breaks_the_stream() {
    for hooks in ["", WATCHED] {
        let (upstream, mut signs) = lingering(&["one"]).await;
        let config = format!("timeouts: {{ stream_idle: 200ms }}\n{hooks}");
        let gate = TestGateway::start(&upstream, &config).await;

        let mut answer = gate.agent().open(SSE, body()).await;
        let (text, end) = rest(&mut answer).await;

        assert_eq!((text, end), (event("one"), End::Broken));
        signalled(&mut signs, "the end of the call to upstream").await;
    }
}

/// An upstream that sends the beginning of an answer, and breaks off when notified.
async fn breaking() -> (Upstream, Arc<Notify>) {
    let told = Arc::new(Notify::new());
    let notified = Arc::clone(&told);
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
    (upstream, told)
}

fn beginning(query: &str) -> (&'static str, String) {
    match query {
        "alt=sse" => ("text/event-stream", event("one")),
        _ => ("application/json", format!("[{}", chunk("one"))),
    }
}

#[tokio::test]
async fn an_upstream_that_breaks_off_breaks_the_stream() {
    let cases = [("", SSE), ("", ARRAY), (WATCHED, SSE), (WATCHED, ARRAY)];
    for (hooks, path) in cases {
        let (upstream, told) = breaking().await;
        let gate = TestGateway::start(&upstream, hooks).await;

        let mut answer = gate.agent().open(path, body()).await;
        let first = piece(&mut answer).await;
        told.notify_one();
        let (text, end) = rest(&mut answer).await;

        let query = path.split_once('?').map_or("", |it| it.1);
        assert_eq!(first, beginning(query).1);
        assert_eq!(
            (text.as_str(), end),
            ("", End::Broken),
            "{path} with {hooks:?}"
        );
    }
}

#[tokio::test]
async fn an_upstream_that_does_not_stream_is_judged_all_the_same() {
    let upstream = Upstream::raw(|_, mut socket| async move {
        let head = chunked_head("application/json");
        socket.write_all(head.as_bytes()).await.unwrap();
        let array = format!("[{},\n{}]", chunk("one"), chunk("two"));
        write_chunk(&mut socket, array.as_bytes()).await.unwrap();
        write_last_chunk(&mut socket).await;
    })
    .await;
    let gate = TestGateway::start(&upstream, WATCHED).await;

    let answer = gate.agent().post(SSE, body()).await;

    assert_eq!(answer.text(), event("one") + &event("two"));
    assert_eq!(answer.header("content-type"), "text/event-stream");
}
