//! Vertex AI alone: names of models in bodies, and what its bodies have besides.

use serde_json::json;

use super::{Form, Way};
use crate::harness::{TestGateway, Upstream, assert_refused, hook, prompt};

const FULL: &str = "projects/p-1/locations/us-central1/publishers/google/models/m";

#[tokio::test]
async fn a_model_in_the_body_must_be_that_of_the_path() {
    let upstream = Upstream::mock().await;
    let swap = hook::saying("swap", &hook::request(&json!({ "model": "other" })));
    let gate = TestGateway::start(&upstream, &hook::config(&[("BeforeModel", swap)])).await;
    for (way, name, fits) in [
        (Way::Project, FULL, true),
        (Way::Project, "publishers/google/models/m", true),
        (Way::Project, "models/m", true),
        (Way::Project, "m", true),
        (
            Way::Project,
            "projects/p-2/locations/us-central1/publishers/google/models/m",
            false,
        ),
        (Way::Project, "publishers/google/models/n", false),
        (Way::Project, "publishers/other/models/m", false),
        (Way::Express, "publishers/google/models/m", true),
        (Way::Express, FULL, false),
        (Way::Gemini, "models/m", true),
        (Way::Gemini, "publishers/google/models/m", false),
    ] {
        let mut request = prompt("hi");
        request["model"] = json!(name);
        let before = upstream.seen().len();
        let body = request.to_string();
        let answer = gate
            .agent()
            .post(&way.path("m", "countTokens"), body.clone())
            .await;
        if !fits {
            assert_refused(&answer, 400, "AMBIGUOUS");
            assert_eq!(upstream.seen().len(), before);
            continue;
        }
        assert_eq!(answer.status, 200, "{name}: {}", answer.text());
        let asked = upstream.seen().pop().unwrap();
        assert_eq!(asked.path, way.path("other", "countTokens"));
        let renamed = name.strip_suffix('m').unwrap().to_owned() + "other";
        assert_eq!(
            asked.body,
            body.replace(&format!("\"{name}\""), &format!("\"{renamed}\""))
        );
    }
}

#[tokio::test]
async fn content_that_hooks_do_not_read_is_not_counted() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(
        &upstream,
        &hook::config(&[("BeforeModel", hook::running("look", "cat"))]),
    )
    .await;
    let mut request = prompt("hi");
    request["instances"] = json!([{ "content": "psst" }]);
    for method in ["countTokens", "generateContent"] {
        let answer = gate
            .agent()
            .post(&Way::Project.path("m", method), request.to_string())
            .await;
        assert_refused(&answer, 400, "BAD_DOCUMENT");
    }
    assert!(upstream.seen().is_empty());
}

#[tokio::test]
async fn labels_and_embeddings_go_on_as_they_are() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(
        &upstream,
        &hook::config(&[("BeforeModel", hook::running("look", "cat > seen.json"))]),
    )
    .await;
    let mut request = prompt("hi");
    request["labels"] = json!({ "team": "a" });

    Way::Express.ask(&gate, Form::Unary, &request).await;
    assert_eq!(upstream.only().json(), request);

    let embedding = json!({ "content": { "parts": [{ "text": "embed me" }] } });
    let path = Way::Project.path("m", "embedContent");
    let answer = gate.agent().post(&path, embedding.to_string()).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let seen = gate.json("seen.json");
    assert_eq!(seen["llm_request"]["messages"][0]["content"], "embed me");
}

#[tokio::test]
async fn models_are_listed_by_each_upstream_that_has_them() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, "").await;
    for path in [
        "/v1beta1/publishers/google/models",
        "/v1/publishers/google/models/m",
    ] {
        assert_eq!(gate.agent().get(path).await.status, 200);
        assert_eq!(upstream.seen().pop().unwrap().path, path);
    }
}
