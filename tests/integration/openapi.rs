//! Answers of the gateway, which are as its `OpenAPI` document describes them.

use hookgate::api::openapi;
use serde_json::{Value, json};

use crate::{
    harness::{Agent, Answer, TestGateway, Upstream, hook, prompt, respond},
    trace::{GUARDS, calls, until},
};

const MODEL: &str = "gemini-2.5-pro";

/// The `OpenAPI` document of the gateway.
struct Document(Value);

impl Document {
    fn generate() -> Self {
        let yaml = openapi::yaml().unwrap();
        Self(serde_saphyr::from_str(&yaml).unwrap())
    }

    /// Returns the paths of the admin API that can be read.
    fn admin_paths(&self) -> Vec<String> {
        let paths = self.0["paths"].as_object().unwrap().iter();
        let paths = paths.filter(|(_, operations)| operations["get"]["tags"] == json!(["admin"]));
        paths.map(|(path, _)| path.clone()).collect()
    }

    /// Checks that an operation has the status, the media type and the body of an answer.
    #[track_caller]
    fn check(&self, method: &str, path: &str, answer: &Answer) {
        let (status, text) = (answer.status.to_string(), answer.text());
        let response = &self.0["paths"][path][method]["responses"][&status];
        assert!(
            response.is_object(),
            "{method} {path} has no {status}: {text}"
        );
        let essence = |media_type: &str| media_type.split(';').next().map(str::to_owned);
        let media_type = essence(answer.header("content-type"));
        let mut contents = response["content"].as_object().into_iter().flatten();
        let content = contents.find(|(name, _)| essence(name) == media_type);
        let Some((_, content)) = content else {
            panic!("{method} {path} has no {media_type:?} for {status}: {text}");
        };
        if media_type.as_deref() == Some("application/json") {
            let mut schema = content["schema"].clone();
            schema["components"] = self.0["components"].clone();
            let validator = jsonschema::draft202012::new(&schema).unwrap();
            let body = answer.json();
            let errors = validator.iter_errors(&body);
            let errors: Vec<String> = errors
                .map(|error| format!("{}: {error:.300}", error.instance_path()))
                .collect();
            assert!(errors.is_empty(), "{method} {path}: {errors:#?}");
        }
    }
}

/// Starts a model API that calls a tool until a request contains the denial.
async fn tool_calling_upstream() -> Upstream {
    Upstream::with(|asked| {
        let part = if asked.body.contains("blocked") {
            json!({ "text": "Then not." })
        } else {
            json!({ "functionCall": { "name": "run_shell_command", "args": { "command": "ls" } } })
        };
        let content = json!({ "role": "model", "parts": [part] });
        let answer = json!({ "candidates": [{ "content": content, "finishReason": "STOP" }] });
        respond(200, "application/json", answer.to_string())
    })
    .await
}

#[tokio::test]
async fn the_admin_api_answers_as_documented() {
    let document = Document::generate();
    let upstream = tool_calling_upstream().await;
    let content = "trace: { content: { denied_or_edited: true, reasons: true } }";
    let gateway = TestGateway::start(&upstream, &format!("{content}\n{GUARDS}")).await;
    let agent = gateway.agent().sending("x-hookgate-session", "my-session");
    let denied = agent.generate(MODEL, &prompt("delete all")).await;
    agent.generate("claude-1", &prompt("blocked")).await;
    agent.get("/v1beta/made-up").await;
    calls(&gateway, "limit=100", 2).await;
    let id = denied.header("x-hookgate-request-id");
    let operator = gateway.operator();
    let content = format!("/calls/{id}/content");
    until(&operator, &content, |kept| kept["error"].is_null()).await;

    let mut checked = 0;
    for path in document.admin_paths() {
        // Its answer does not end.
        if path == "/calls/stream" {
            continue;
        }
        let id = if path.starts_with("/calls") {
            id
        } else {
            "my-session"
        };
        let query = if path == "/config/diff" {
            "?from=0&to=0"
        } else {
            ""
        };
        let answer = operator.get(&(path.replace("{id}", id) + query)).await;
        document.check("get", &path, &answer);
        let refused = operator.get(&path.replace("{id}", "unknown")).await;
        document.check("get", &path, &refused);
        checked += usize::from(answer.status == 200);
    }
    let event = json!({ "hook_event_name": "BeforeTool", "tool_name": "run_shell_command" });
    for (path, body) in [
        ("/try", json!({ "input": event, "mode": "run" })),
        ("/try", json!({ "input": 1 })),
        ("/config/promote", json!({ "revision": "f00" })),
        ("/config/rollback", json!({})),
        (
            "/sessions/{id}/watch",
            json!({ "minutes": 1, "reason": "a test" }),
        ),
        (
            "/sessions/{id}/watch",
            json!({ "minutes": 0, "reason": "" }),
        ),
        ("/reload", json!({})),
        ("/shadow", json!("no config")),
    ] {
        let target = path.replace("{id}", "my-session");
        document.check(
            "post",
            path,
            &operator.post(&target, body.to_string()).await,
        );
    }

    assert!(checked >= 15, "{checked}");
}

#[tokio::test]
async fn refused_parameters_and_bodies_of_the_admin_api_are_documented() {
    let document = Document::generate();
    let upstream = Upstream::mock().await;
    let gateway = TestGateway::start(&upstream, "").await;
    let operator = gateway.operator();

    for (path, query) in [
        ("/calls/{id}/content", "?reason=a&reason=b"),
        ("/sessions/{id}", "?caller=a&caller=b"),
    ] {
        let answer = operator.get(&(path.replace("{id}", "s1") + query)).await;
        assert_eq!(answer.status, 400, "{path}: {}", answer.text());
        document.check("get", path, &answer);
    }
    let large = "x".repeat(2_200_000);
    for path in ["/config/promote", "/sessions/{id}/watch", "/try", "/shadow"] {
        let answer = operator
            .post(&path.replace("{id}", "s1"), large.clone())
            .await;
        assert_eq!(answer.status, 413, "{path}: {}", answer.text());
        document.check("post", path, &answer);
    }
}

#[tokio::test]
async fn refusals_of_the_admin_api_are_documented() {
    let document = Document::generate();
    let upstream = Upstream::mock().await;
    let admin = "admin: { listen: 127.0.0.1:0, users: [{ name: vera, token: { file: vera }, roles: [viewer] }] }\n";
    let gateway = TestGateway::with_files(&upstream, admin, &[("vera", "vera-token")]).await;
    let operator = || gateway.operator();
    let viewer = operator().sending("authorization", "Bearer vera-token");
    let foreign = || operator().sending("host", "rebound.example");
    let check = async |agent: &Agent, method: &str, path: &str, status: u16| {
        let answer = agent.ask(&method.to_uppercase(), path, "").await;
        assert_eq!(answer.status, status, "{method} {path}: {}", answer.text());
        document.check(method, path, &answer);
    };

    check(&operator(), "get", "/config", 401).await;
    check(&viewer, "post", "/reload", 403).await;
    check(&foreign(), "get", "/config", 403).await;
    check(&foreign(), "get", "/healthz", 403).await;
    check(&foreign(), "get", "/readyz", 403).await;
    let wrong = operator().sending("authorization", "Bearer wrong");
    for _ in 0..20 {
        wrong.get("/config").await;
    }
    for path in document.admin_paths() {
        let has_no_credential = path == "/healthz" || path == "/readyz";
        check(
            &wrong,
            "get",
            &path,
            if has_no_credential { 200 } else { 429 },
        )
        .await;
    }
}

#[tokio::test]
async fn the_port_of_agents_answers_as_documented() {
    let document = Document::generate();
    let upstream = Upstream::mock().await;
    let hooks = hook::config(&[
        ("BeforeTool", hook::denying("guard", "not this")),
        ("Notification", hook::command("noted", "exit 0")),
    ]);
    let gateway = TestGateway::start(&upstream, &hooks).await;
    let agent = gateway.agent();
    let events = "/hookgate/v1/events";
    let tool = json!({ "hook_event_name": "BeforeTool", "tool_name": "ls", "tool_input": {} });
    let notification =
        json!({ "hook_event_name": "Notification", "notification_type": "x", "message": "m" });

    let explained = agent.report(&tool, "explain=1").await;
    let started = agent.report(&notification, "").await;

    assert_eq!(explained.json()["hookgate"]["verdict"], "deny");
    document.check("post", events, &explained);
    document.check("post", events, &agent.report(&tool, "").await);
    assert_eq!(started.status, 202, "{}", started.text());
    document.check("post", events, &started);
    document.check("post", events, &agent.report(&json!({}), "").await);
    let schemas = &document.0["components"]["schemas"];
    let output = schemas["EventOutput"].to_string();
    assert!(output.contains("schemas/Explanation"), "{output}");
    let path = |method: &str| format!("/v1beta/models/{{model}}:{method}");
    let generated = agent.generate(MODEL, &prompt("hello")).await;
    document.check("post", &path("generateContent"), &generated);
    for stream in [
        agent.stream(MODEL, &prompt("hello")).await,
        agent.array(MODEL, &prompt("hello")).await,
    ] {
        assert_eq!(stream.status, 200, "{}", stream.text());
        document.check("post", &path("streamGenerateContent"), &stream);
    }
}
