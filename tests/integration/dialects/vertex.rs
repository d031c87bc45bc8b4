//! Vertex AI: model names in bodies, and fields that only its bodies have.

use serde_json::json;

use super::{Api, Framing};
use crate::harness::{TestGateway, Upstream, assert_refused, hook, prompt};

const FULL_MODEL_NAME: &str = "projects/p-1/locations/us-central1/publishers/google/models/m";

#[tokio::test]
async fn a_model_in_the_body_must_match_the_path() {
    let upstream = Upstream::mock().await;
    let swap = hook::printing("swap", &hook::request(&json!({ "model": "other" })));
    let gate = TestGateway::start(&upstream, &hook::config(&[("BeforeModel", swap)])).await;
    for (api, name, matches) in [
        (Api::Project, FULL_MODEL_NAME, true),
        (Api::Project, "publishers/google/models/m", true),
        (Api::Project, "models/m", true),
        (Api::Project, "m", true),
        (
            Api::Project,
            "projects/p-2/locations/us-central1/publishers/google/models/m",
            false,
        ),
        (Api::Project, "publishers/google/models/n", false),
        (Api::Project, "publishers/other/models/m", false),
        (Api::Express, "publishers/google/models/m", true),
        (Api::Express, FULL_MODEL_NAME, false),
        (Api::Gemini, "models/m", true),
        (Api::Gemini, "publishers/google/models/m", false),
    ] {
        let mut request = prompt("hi");
        request["model"] = json!(name);
        let before = upstream.requests().len();
        let body = request.to_string();
        let answer = gate
            .agent()
            .post(&api.path("m", "countTokens"), body.clone())
            .await;
        if !matches {
            assert_refused(&answer, 400, "AMBIGUOUS");
            assert_eq!(upstream.requests().len(), before);
            continue;
        }
        assert_eq!(answer.status, 200, "{name}: {}", answer.text());
        let received = upstream.requests().pop().unwrap();
        assert_eq!(received.path, api.path("other", "countTokens"));
        let renamed = name.strip_suffix('m').unwrap().to_owned() + "other";
        assert_eq!(
            received.body,
            body.replace(&format!("\"{name}\""), &format!("\"{renamed}\""))
        );
    }
}

#[tokio::test]
async fn content_in_instances_is_refused() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(
        &upstream,
        &hook::config(&[("BeforeModel", hook::command("look", "cat"))]),
    )
    .await;
    let mut request = prompt("hi");
    request["instances"] = json!([{ "content": "psst" }]);
    for method in ["countTokens", "generateContent"] {
        let answer = gate
            .agent()
            .post(&Api::Project.path("m", method), request.to_string())
            .await;
        assert_refused(&answer, 400, "BAD_DOCUMENT");
    }
    assert!(upstream.requests().is_empty());
}

#[tokio::test]
async fn labels_pass_unchanged_and_embeddings_reach_hooks() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(
        &upstream,
        &hook::config(&[("BeforeModel", hook::command("look", "cat > seen.json"))]),
    )
    .await;
    let mut request = prompt("hi");
    request["labels"] = json!({ "team": "a" });

    Api::Express.send(&gate, Framing::Unary, &request).await;
    assert_eq!(upstream.only_request().json(), request);

    let embedding = json!({ "content": { "parts": [{ "text": "embed me" }] } });
    let path = Api::Project.path("m", "embedContent");
    let answer = gate.agent().post(&path, embedding.to_string()).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let seen = gate.json("seen.json");
    assert_eq!(seen["llm_request"]["messages"][0]["content"], "embed me");
}

#[tokio::test]
async fn several_texts_to_embed_are_inspected() {
    let upstream = Upstream::mock().await;
    let config = "policies: [{ policy: redact, detect: [email] }]\n";
    let gate = TestGateway::start(&upstream, config).await;
    let request = |text: &str| json!({ "content": { "parts": [{ "text": text }] } });
    for api in [Api::Express, Api::Project] {
        let path = api.path("m", "batchEmbedContents");
        let body = json!({ "requests": [request("one"), request("ann@example.com")] });

        let answer = gate.agent().post(&path, body.to_string()).await;

        assert_eq!(answer.status, 200, "{}", answer.text());
        let sent = upstream.requests().pop().unwrap();
        let masked = json!({ "requests": [request("one"), request("[REDACTED:email]")] });
        assert_eq!((sent.path.as_str(), sent.json()), (path.as_str(), masked));
    }
}

#[tokio::test]
async fn hooks_edit_each_text_to_embed_in_its_place() {
    let upstream = Upstream::mock().await;
    let request =
        |text: &str| json!({ "content": { "role": "user", "parts": [{ "text": text }] } });
    let message = |text: &str| json!({ "role": "user", "content": text });
    let requests = json!([request("SECRET"), { "model": "models/m" }, request("KEY")]);
    for (returned, written) in [
        (json!([message(""), message("[x]")]), ["", "[x]"]),
        (json!([message("KEY")]), ["", "KEY"]),
        (
            json!([message("SECRET"), message("new"), message("KEY")]),
            ["SECRET", "KEY"],
        ),
    ] {
        let edit = hook::request(&json!({ "messages": returned }));
        let config = hook::config(&[("BeforeModel", hook::printing("edit", &edit))]);
        let gate = TestGateway::start(&upstream, &config).await;
        for api in [Api::Gemini, Api::Express, Api::Project] {
            let body = json!({ "requests": requests }).to_string();

            let path = api.path("m", "batchEmbedContents");
            let answer = gate.agent().post(&path, body).await;

            assert_eq!(answer.status, 200, "{}", answer.text());
            let [first, last] = written.map(request);
            let expected = json!({ "requests": [first, { "model": "models/m" }, last] });
            let sent = upstream.requests().pop().unwrap();
            assert_eq!(sent.json(), expected, "{api:?}");
        }
    }
}

#[tokio::test]
async fn model_metadata_requests_pass_to_upstream() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, "").await;
    for path in [
        "/v1beta1/publishers/google/models",
        "/v1/publishers/google/models/m",
    ] {
        assert_eq!(gate.agent().get(path).await.status, 200);
        assert_eq!(upstream.requests().pop().unwrap().path, path);
    }
}
