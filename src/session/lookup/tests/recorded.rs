//! Recorded requests of real agents: the session of each, and the items that are new in it.

use std::{fmt::Write, fs, io::Read, path::Path};

use flate2::read::GzDecoder;
use serde_json::Value;

use super::{HELPER, MAIN, TestAgents, history};
use crate::{
    dialect::ItemKind,
    session::{CallRole, Session, SessionRequest, SessionSource},
};

/// One recorded call of a model that holds a conversation.
pub(super) struct Recorded {
    method: String,
    role: CallRole,
    /// Session that a Code Assist request names.
    named: Option<String>,
    pub(super) contents: Vec<Value>,
}

#[tokio::test]
async fn recorded_requests_find_their_sessions() {
    let mut told = String::new();
    for (file, requests) in recordings() {
        writeln!(told, "{file}").unwrap();
        let agents = TestAgents::new();
        let mut ids = Vec::new();
        for (number, recorded) in requests.iter().enumerate() {
            let line = visited(&agents, recorded, &mut ids).await;
            writeln!(told, "{:>4}  {line}", number + 1).unwrap();
        }
        told.push('\n');
    }

    insta::assert_snapshot!(told);
}

/// A visit in a line that a person can read.
async fn visited(agents: &TestAgents, recorded: &Recorded, ids: &mut Vec<String>) -> String {
    let role = match recorded.role {
        CallRole::Main => MAIN,
        CallRole::Helper => HELPER,
    };
    let named = recorded.named.as_deref();
    let visit = SessionRequest {
        named: named.map(|name| (name, SessionSource::CodeAssist)),
        ..role
    };
    let read = history(&recorded.contents);
    let mut session = agents.sessions.open(visit, Some(&read)).await.unwrap();
    if !ids.contains(&session.key.id) {
        ids.push(session.key.id.clone());
    }
    let number = ids.iter().position(|id| *id == session.key.id).unwrap() + 1;
    let match_kind = session.match_kind.as_str();
    let news = match recorded.role {
        CallRole::Main => news(&mut session, &read),
        CallRole::Helper => "helper".to_owned(),
    };
    session.save().await;
    let (turn, method) = (session.state.turns, &recorded.method);
    format!("{method:<21}  s{number}  {match_kind:<11}  turn {turn:<2}  {news}")
}

/// Returns the texts that hooks inspect next: the prompt, and results of tools.
fn news(session: &mut Session, read: &super::History) -> String {
    let mut news = Vec::new();
    for at in session.conversation.last_step() {
        let item = session.conversation.items[at].clone();
        if session.is_evaluated(&item, true) {
            continue;
        }
        session.mark_evaluated(&item);
        if item.kind == ItemKind::Result {
            let results = read.results(item.content).unwrap();
            let here = (item.content, item.part);
            let result = results
                .iter()
                .find(|result| (result.content, result.part) == here);
            let result = result.unwrap();
            news.push(format!("{} {} answered", result.name, result.args));
        }
        let asked = session.current_prompt().filter(|prompt| prompt.item == at);
        let text = asked.map(|prompt| session.prompt_text(prompt, read).unwrap());
        news.extend(text.map(|text| format!("{text:?}")));
    }
    news.join(", ")
}

/// Every recording, by the name of its file.
pub(super) fn recordings() -> Vec<(String, Vec<Recorded>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/traffic");
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    let read = |file: &std::path::PathBuf| {
        let mut text = String::new();
        let packed = fs::File::open(file).unwrap();
        GzDecoder::new(packed).read_to_string(&mut text).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
        let name = file.file_name().unwrap().to_string_lossy();
        let name = name.trim_end_matches(".jsonl.gz").to_owned();
        (
            name,
            lines.filter_map(|line: Value| recorded(&line)).collect(),
        )
    };
    files.iter().map(read).collect()
}

fn recorded(line: &Value) -> Option<Recorded> {
    let body = line.get("body")?;
    let request = body.get("request").unwrap_or(body);
    let contents = request.get("contents")?.as_array()?.clone();
    let (_, method) = line["path"].as_str()?.rsplit_once(':')?;
    let headers = line["headers"].as_array()?.iter();
    let mut agents = headers.filter(|header| {
        header[0]
            .as_str()
            .unwrap()
            .eq_ignore_ascii_case("user-agent")
    });
    let agent = agents.next()?[1].as_str()?;
    let tools = request["tools"].as_array().into_iter().flatten();
    let calls = tools
        .into_iter()
        .any(|tool| tool.get("functionDeclarations").is_some());
    let helps = agent.starts_with("GeminiCLI") && !calls || method == "countTokens";
    Some(Recorded {
        method: method.to_owned(),
        role: if helps {
            CallRole::Helper
        } else {
            CallRole::Main
        },
        named: request["session_id"].as_str().map(str::to_owned),
        contents,
    })
}
