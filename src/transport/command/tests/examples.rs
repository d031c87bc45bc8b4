//! Examples of `docs/hooks.md`, run as they are.

use super::*;

/// Runs the example in `language` of docs/hooks.md on an event.
async fn run_example(language: &str, interpreter: &str, event: Value) -> HookResult {
    let fixture = Fixture::new();
    let manual = fs::read_to_string("docs/hooks.md").unwrap();
    let (_, example) = manual.split_once(&format!("```{language}\n#!")).unwrap();
    let (example, _) = example.split_once("```").unwrap();
    fs::write(fixture.file("example"), format!("#!{example}")).unwrap();
    let hook = fixture.hook(&format!("{interpreter} example"));

    fixture
        .call(&*hook, event.to_string().into())
        .await
        .unwrap()
}

fn prompt(text: &str) -> Value {
    json!({"llm_request": {"model": "m", "config": {}, "messages": [
        {"role": "model", "content": "Hi."},
        {"role": "user", "content": text},
    ]}})
}

/// Returns whether the interpreter of an example is installed.
fn is_installed(interpreter: &str) -> bool {
    let run = std::process::Command::new(interpreter)
        .arg("--version")
        .output();
    run.is_ok_and(|output| output.status.success())
}

#[tokio::test]
async fn the_bash_example_works() {
    let write = |file| json!({"tool_name": "write_file", "tool_input": {"file_path": file}});

    let refused = run_example("bash", "bash", write("a/.env")).await;
    let allowed = run_example("bash", "bash", write("a/env.md")).await;

    let denial = HookOutput::denial("files named .env are not for agents");
    assert_eq!(refused.output, denial);
    assert_eq!(allowed.output, HookOutput::default());
}

#[tokio::test]
async fn the_python_example_works() {
    if !is_installed("python3") {
        return;
    }

    let masked = run_example("python", "python3", prompt("to a.b@example.com!")).await;
    let untouched = run_example("python", "python3", prompt("to whom?")).await;

    let request = masked.output.specific("llm_request").unwrap();
    assert_eq!(request["messages"][0]["content"], "Hi.");
    assert_eq!(request["messages"][1]["content"], "to [e-mail]!");
    assert_eq!(untouched.output, HookOutput::default());
}

#[tokio::test]
async fn the_javascript_example_works() {
    if !is_installed("node") {
        return;
    }

    let plan = run_example("js", "node", prompt("make a Plan")).await;
    let other = run_example("js", "node", prompt("make an aeroplane")).await;

    assert_eq!(
        plan.output.specific("toolConfig"),
        Some(&json!({"mode": "AUTO", "allowedFunctionNames": ["read_file", "glob"]}))
    );
    assert_eq!(plan.status, HookStatus::Ok);
    assert_eq!(other.output, HookOutput::default());
}
