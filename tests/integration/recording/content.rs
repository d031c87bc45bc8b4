//! Content of recorded exchanges: bodies, chunk boundaries, rounds and events.

use std::io::Write;

use data_encoding::HEXLOWER;
use flate2::{Compression, write::GzEncoder};
use hookgate::recording::{AnswerBody, RecordedBody};
use sha2::{Digest, Sha256};

use super::{RECORD, assert_valid, only_exchange, recorded};
use crate::{
    families::family::{Family, Part, Turn, each},
    harness::{TestGateway, Upstream, hook, prompt, respond},
};

const GUARD: &str = "policies: [{ policy: tool_guard, deny: [rm], reason: not here }]\n";

#[tokio::test]
async fn exchanges_of_every_api_are_recorded_byte_for_byte() {
    let outputs = vec![Part::text(&["hel", "lo"]), Part::call("look", "é")];
    for config in [RECORD.to_owned(), format!("{RECORD}{GUARD}")] {
        for (family, is_stream) in each() {
            let upstream = family.upstream(vec![outputs.clone()]).await;
            let gateway = family.gateway(&upstream, &config).await;
            let answer = family.ask(&gateway, is_stream, &[Turn::User("hi")]).await;
            let asked = upstream.requests().pop().unwrap();

            let exchange = only_exchange(recorded(gateway).await);

            assert_valid(&exchange);
            let sent = exchange.sent_bytes(&exchange.rounds[0]).unwrap();
            assert_eq!(sent, asked.body.as_bytes(), "{family:?}");
            let response = exchange.rounds[0].response.as_ref().unwrap();
            assert!(response.complete && response.status == 200, "{family:?}");
            let expected = if is_stream {
                family.events(&outputs)
            } else {
                family.whole(&outputs).to_string()
            };
            assert_eq!(response.bytes().unwrap(), expected.as_bytes(), "{family:?}");
            assert_eq!(
                exchange.answer_bytes().unwrap(),
                &*answer.body,
                "{family:?}"
            );
            let id = answer.headers["x-hookgate-request-id"].to_str().unwrap();
            assert_eq!(exchange.id, id);
            assert_eq!(exchange.outcome.end, "complete");
            assert_eq!(exchange.target, family.path(is_stream));
        }
    }
}

#[tokio::test]
async fn an_exchange_with_a_denied_tool_has_its_events_and_both_rounds() {
    for (family, is_stream) in each() {
        let answers = vec![
            vec![Part::text(&["a"]), Part::call("rm", "x")],
            vec![Part::text(&["sorry"])],
        ];
        let upstream = family.upstream(answers).await;
        let gateway = family.gateway(&upstream, &format!("{RECORD}{GUARD}")).await;
        family.ask(&gateway, is_stream, &[Turn::User("hi")]).await;

        let exchange = only_exchange(recorded(gateway).await);

        assert_valid(&exchange);
        assert_eq!(exchange.rounds.len(), 2, "{family:?}");
        // The denied tool is not declared upstream.
        assert!(
            matches!(&exchange.rounds[0].sent, RecordedBody::Text(text) if !text.contains("\"rm\""))
        );
        assert!(
            matches!(&exchange.rounds[1].sent, RecordedBody::Text(text) if text.contains("not here"))
        );
        assert!(matches!(
            exchange.answer.as_ref().unwrap().body,
            AnswerBody::Chunks(_)
        ));
        let mut runs = exchange.events.iter().flat_map(|event| &event.hooks);
        let run = runs.find(|run| !run.refused.is_empty()).unwrap();
        assert_eq!((&*run.refused[0].tool, &*run.kind), ("rm", "builtin"));
        assert!(exchange.outcome.tool_denied);
    }
}

#[tokio::test]
async fn hook_runs_are_recorded_with_input_hash_and_output() {
    let script = r#"cat > input; echo '{"systemMessage":"hello"}'"#;
    let upstream = Upstream::mock().await;
    let hooks = hook::config(&[("BeforeModel", hook::command("note", script))]);
    let gateway = TestGateway::start(&upstream, &format!("{RECORD}{hooks}")).await;
    gateway
        .agent()
        .sending("x-hookgate-session", "s1")
        .generate("m", &prompt("hi"))
        .await;
    gateway
        .agent()
        .sending("x-hookgate-session", "s1")
        .generate("m", &prompt("hi"))
        .await;
    let input = gateway.file("input");

    let exchanges = recorded(gateway).await;

    let event = &exchanges[1].events[0];
    assert_eq!(
        (&*event.name, &*event.verdict, event.round),
        ("BeforeModel", "proceed", 0)
    );
    let run = &event.hooks[0];
    // Session, folder and time come before the event, and are not hashed.
    let event = &input[input.find("\"hook_event_name\":").unwrap()..];
    assert_eq!(
        run.input.as_deref(),
        Some(&*HEXLOWER.encode(&Sha256::digest(event)))
    );
    assert_eq!(run.output["systemMessage"], "hello");
    assert_eq!(
        (&*run.name, &*run.kind, run.definition.len()),
        ("note", "command", 64)
    );
    let sessions: Vec<_> = exchanges
        .iter()
        .map(|exchange| exchange.session.clone().unwrap())
        .collect();
    assert_eq!(
        (&*sessions[0].id, sessions[0].place, sessions[1].place),
        ("s1", 0, 1)
    );
}

#[tokio::test]
async fn recorded_chunks_keep_the_received_chunk_boundaries() {
    let family = Family::Gemini;
    let outputs: Vec<Part> = vec![Part::Text(
        (0..20).map(|number| format!("piece {number} ")).collect(),
    )];
    let events = family.events(&outputs);
    let sent_chunks: Vec<String> = events
        .split_inclusive("\r\n\r\n")
        .map(str::to_owned)
        .collect();
    let response_chunks = sent_chunks.clone();
    let upstream = Upstream::with(move |_| {
        let chunks = response_chunks.clone().into_iter();
        let chunks = futures_util::stream::iter(chunks.map(Ok::<_, std::io::Error>));
        let body = axum::body::Body::from_stream(chunks);
        let mut response = axum::response::Response::new(body);
        let media_type = http::HeaderValue::from_static("text/event-stream");
        response.headers_mut().insert("content-type", media_type);
        response
    })
    .await;
    let gateway = family.gateway(&upstream, &format!("{RECORD}{GUARD}")).await;
    family.ask(&gateway, true, &[Turn::User("hi")]).await;

    let exchange = only_exchange(recorded(gateway).await);

    let chunks = &exchange.rounds[0].response.as_ref().unwrap().chunks;
    let joined: String = chunks
        .iter()
        .map(|chunk| match &chunk.bytes {
            RecordedBody::Text(text) => text.clone(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(joined, events);
    assert!(chunks.windows(2).all(|pair| pair[0].ms <= pair[1].ms));
    // The network may join chunks, but does not split them here.
    let mut recorded_ends = chunks.iter().scan(0, |end, chunk| {
        *end += chunk.bytes.bytes().unwrap().len();
        Some(*end)
    });
    let sent_ends: Vec<usize> = sent_chunks
        .iter()
        .scan(0, |end, chunk| {
            *end += chunk.len();
            Some(*end)
        })
        .collect();
    assert!(recorded_ends.all(|end| sent_ends.contains(&end)));
}

#[tokio::test]
async fn a_rejected_call_is_recorded_without_a_round() {
    let upstream = Upstream::mock().await;
    let gateway = TestGateway::start(&upstream, &format!("{RECORD}{GUARD}")).await;
    gateway
        .agent()
        .post("/v1beta/models/m:generateContent", "{\"a\":")
        .await;

    let exchange = only_exchange(recorded(gateway).await);

    assert_eq!(exchange.rounds, []);
    assert_eq!(exchange.request, RecordedBody::Text("{\"a\":".to_owned()));
    assert_eq!(exchange.outcome.action, "error");
    assert_eq!(exchange.answer.unwrap().status, 400);
}

#[tokio::test]
async fn a_compressed_answer_that_is_too_large_decoded_is_omitted() {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(&vec![b' '; 32 * 1024 * 1024]).unwrap();
    encoder.write_all(b"{}").unwrap();
    let compressed = encoder.finish().unwrap();
    let length = compressed.len() as u64;
    let upstream = Upstream::with(move |_| {
        let mut response = respond(200, "application/json", compressed.clone());
        let headers = response.headers_mut();
        headers.insert("content-encoding", "gzip".parse().unwrap());
        response
    })
    .await;
    let record = "record: { path: recordings, redact: none }\n";
    let gateway = TestGateway::start(&upstream, record).await;
    gateway.agent().generate("m", &prompt("hi")).await;

    let exchange = only_exchange(recorded(gateway).await);

    let response = exchange.rounds[0].response.as_ref().unwrap();
    let chunks: Vec<&RecordedBody> = response.chunks.iter().map(|chunk| &chunk.bytes).collect();
    let omitted = RecordedBody::Omitted(length);
    assert!(chunks == [&omitted], "{} chunks", chunks.len());
}
