mod properties;
mod recorded;

use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};

use super::*;
use crate::{
    dialect::{self, ResponseDocument},
    session::{MemoryStore, SessionSource},
};

/// Finish reason of a complete answer.
const STOP: &str = "STOP";

/// Finish reason of an answer that the model has not completed.
const MAX_TOKENS: &str = "MAX_TOKENS";

/// Sessions, and the calls of agents that use them.
struct TestAgents {
    sessions: Sessions,
}

const MAIN: SessionRequest<'static> = SessionRequest {
    caller: "caller",
    agent: "agent",
    named: None,
    continued: None,
    role: CallRole::Main,
    recorded: None,
};

const HELPER: SessionRequest<'static> = SessionRequest {
    role: CallRole::Helper,
    ..MAIN
};

impl TestAgents {
    fn new() -> Self {
        let store = MemoryStore::new(100, Duration::from_mins(30));
        Self {
            sessions: Sessions::new(SessionStore::Memory(Box::new(store))),
        }
    }

    async fn visit(&self, visit: SessionRequest<'_>, contents: &[Value]) -> Box<Session> {
        let history = history(contents);
        let mut session = self.sessions.open(visit, Some(&history)).await.unwrap();
        for at in session.conversation.last_step() {
            let item = session.conversation.items[at].clone();
            session.mark_evaluated(&item);
        }
        session.save().await;
        session
    }

    /// Makes a call about which no hook decides.
    async fn open_and_see(&self, contents: &[Value]) -> Box<Session> {
        let named = Some(("mine", SessionSource::Path));
        let request = SessionRequest { named, ..MAIN };
        let history = history(contents);
        let mut session = self.sessions.open(request, Some(&history)).await.unwrap();
        session.mark_last_step_seen();
        session.save().await;
        session
    }

    /// Makes a call whose answer has chunks of one part each.
    async fn ask(&self, contents: &[Value], answer: &[Value]) -> Box<Session> {
        let mut session = self.visit(MAIN, contents).await;
        answered(&mut session, answer, MAX_TOKENS).await;
        session
    }
}

/// Records an answer that has chunks of one part each, and ends with this reason.
async fn answered(session: &mut Session, chunks: &[Value], reason: &str) {
    let mut emission = session.response_fingerprinter();
    for part in chunks {
        let candidate =
            json!({"content": model(std::slice::from_ref(part)), "finishReason": reason});
        let chunk = json!({"candidates": [candidate]});
        let chunk = ResponseDocument::parse(chunk.to_string().into()).unwrap();
        emission.push_chunk(&chunk).unwrap();
    }
    session.record_response(emission, true).await;
}

fn history(contents: &[Value]) -> History {
    let document =
        dialect::parse_document(Bytes::from(json!({ "contents": contents }).to_string()));
    History::read(&document.unwrap()).unwrap().unwrap()
}

fn text(text: &str) -> Value {
    json!({ "text": text })
}

fn user(parts: &[Value]) -> Value {
    json!({"role": "user", "parts": parts})
}

fn model(parts: &[Value]) -> Value {
    json!({"role": "model", "parts": parts})
}

fn call(id: &str) -> Value {
    json!({"functionCall": {"id": id, "name": "f", "args": {"path": "a"}}})
}

fn result(id: &str, output: &str) -> Value {
    json!({"functionResponse": {"id": id, "name": "f", "response": {"output": output}}})
}

fn introduction() -> Value {
    text("<session_context>\nx\n</session_context>")
}

#[tokio::test]
async fn a_continued_conversation_has_one_session() {
    let agents = TestAgents::new();
    let mut contents = vec![user(&[introduction(), text("go")])];
    let first = agents
        .ask(&contents, &[text("I "), text("look"), call("c-1234567")])
        .await;
    assert_eq!(first.match_kind, MatchKind::New);

    contents.extend([
        model(&[text("I look"), call("c-1234567")]),
        user(&[result("c-1234567", "A")]),
    ]);
    let second = agents.ask(&contents, &[text("done")]).await;
    contents.extend([model(&[text("done")]), user(&[text("again")])]);
    let third = agents.ask(&contents, &[text("no")]).await;

    for session in [&second, &third] {
        assert_eq!(session.match_kind, MatchKind::Continued);
        assert_eq!(session.key, first.key);
    }
    assert_eq!((third.state.turns, third.state.requests), (2, 3));
}

#[tokio::test]
async fn a_prompt_that_is_rolled_back_leaves_the_session() {
    let agents = TestAgents::new();
    let start = [user(&[text("a")]), model(&[text("A")])];
    let ask = |prompt: &str| [start.as_slice(), &[user(&[text(prompt)])]].concat();
    let first = agents.ask(&start[..1], &[text("A")]).await;
    agents.ask(&ask("b"), &[text("B")]).await;

    let other = agents.ask(&ask("c"), &[text("C")]).await;

    assert_eq!(other.match_kind, MatchKind::RolledBack);
    assert_eq!(other.key, first.key);
}

#[tokio::test]
async fn a_complete_answer_is_not_rolled_back() {
    for (reason, match_kind) in [(STOP, MatchKind::Forked), ("SAFETY", MatchKind::RolledBack)] {
        let agents = TestAgents::new();
        let start = [user(&[text("a")]), model(&[text("A")])];
        let ask = |prompt: &str| [start.as_slice(), &[user(&[text(prompt)])]].concat();
        answered(
            &mut *agents.visit(MAIN, &start[..1]).await,
            &[text("A")],
            STOP,
        )
        .await;
        answered(
            &mut *agents.visit(MAIN, &ask("b")).await,
            &[text("B")],
            reason,
        )
        .await;

        let other = agents.visit(MAIN, &ask("c")).await;
        let again = agents.visit(MAIN, &ask("b")).await;

        assert_eq!(other.match_kind, match_kind, "{reason}");
        assert_eq!(again.match_kind == MatchKind::RolledBack, reason == STOP);
    }
}

#[tokio::test]
async fn a_turn_that_is_cancelled_during_its_tool_calls_is_rolled_back() {
    let agents = TestAgents::new();
    let start = [user(&[text("a")]), model(&[text("A")])];
    let ask = |prompt: &str| [start.as_slice(), &[user(&[text(prompt)])]].concat();
    answered(
        &mut *agents.visit(MAIN, &start[..1]).await,
        &[text("A")],
        STOP,
    )
    .await;
    let mut calling = agents.visit(MAIN, &ask("b")).await;
    answered(&mut calling, &[call("c-1")], STOP).await;

    let next = agents.visit(MAIN, &ask("c")).await;

    assert_eq!(next.match_kind, MatchKind::RolledBack);
}

#[tokio::test]
async fn a_concurrent_prompt_forks_and_a_cancelled_one_is_rolled_back() {
    let agents = TestAgents::new();
    let start = [user(&[text("a")]), model(&[text("A")])];
    let ask = |prompt: &str| [start.as_slice(), &[user(&[text(prompt)])]].concat();
    answered(
        &mut *agents.visit(MAIN, &start[..1]).await,
        &[text("A")],
        STOP,
    )
    .await;

    let waiting = agents.visit(MAIN, &ask("b")).await;
    let other = agents.visit(MAIN, &ask("c")).await;
    drop((waiting, other));
    let cancelled = agents.visit(MAIN, &ask("d")).await;
    drop(cancelled);
    let next = agents.visit(MAIN, &ask("e")).await;

    assert_eq!(next.match_kind, MatchKind::RolledBack);
    assert_eq!(agents.sessions.store().count(), 2);
}

#[tokio::test]
async fn a_first_prompt_that_is_repeated_later_starts_another_session() {
    let agents = TestAgents::new();
    let start = [user(&[text("a")])];
    let contents = [&start[..], &[model(&[text("A")]), user(&[text("b")])]].concat();
    let mut first = agents.visit(MAIN, &start).await;
    answered(&mut first, &[text("A")], STOP).await;
    answered(
        &mut *agents.visit(MAIN, &contents).await,
        &[text("B")],
        STOP,
    )
    .await;

    let mut other = agents.visit(MAIN, &start).await;
    answered(&mut other, &[text("A")], STOP).await;
    let continued = agents.visit(MAIN, &contents).await;

    assert_eq!(
        (other.match_kind, continued.match_kind),
        (MatchKind::New, MatchKind::Continued)
    );
    assert_ne!(other.key, first.key);
    assert_eq!(continued.key, other.key);
}

#[tokio::test]
async fn the_same_first_prompt_after_a_long_time_starts_another_session() {
    let agents = TestAgents::new();
    let start = [user(&[text("nightly")])];
    let mut first = agents.visit(MAIN, &start).await;
    answered(&mut first, &[text("done")], STOP).await;
    let soon = agents.visit(MAIN, &start).await;
    answered(
        &mut *agents.visit(MAIN, &start).await,
        &[text("done")],
        STOP,
    )
    .await;
    assert_eq!(soon.key, first.key);
    drop(soon);

    let mut old = first.state.clone();
    agents.sessions.remove(&first.key).await.unwrap();
    old.last_seen = 1;
    let prints = [first.conversation.items[0].prefix];
    agents.sessions.store().save(&first.key, old, &prints).await;
    let later = agents.visit(MAIN, &start).await;

    assert_eq!(later.match_kind, MatchKind::New);
    assert_ne!(later.key, first.key);
    assert_eq!(later.state.requests, 1);
}

#[tokio::test]
async fn agents_with_one_first_prompt_are_separated_by_their_first_difference() {
    let agents = TestAgents::new();
    let start = user(&[introduction(), text("go")]);
    let conversation_with =
        |answer: &str, then: &str| [start.clone(), model(&[text(answer)]), user(&[text(then)])];
    let mut one = agents.visit(MAIN, std::slice::from_ref(&start)).await;
    let mut other = agents.visit(MAIN, std::slice::from_ref(&start)).await;
    let prompt = one.conversation.items[1].clone();
    one.note_mut(&prompt).context = Some("remembered".to_owned());
    answered(&mut one, &[text("A")], MAX_TOKENS).await;
    answered(&mut other, &[text("B")], MAX_TOKENS).await;

    let one = agents.ask(&conversation_with("A", "a"), &[text("x")]).await;
    let other = agents.ask(&conversation_with("B", "b"), &[text("x")]).await;

    assert_ne!(one.key, other.key);
    let forked = [&one, &other]
        .into_iter()
        .find(|session| session.match_kind == MatchKind::Forked);
    let forked = forked.unwrap();
    assert_eq!(forked.state.requests, 1);
    assert!(forked.note(&prompt).is_some());
    for (session, answer, then) in [(&one, "A", "a"), (&other, "B", "b")] {
        let mut contents = conversation_with(answer, then).to_vec();
        contents.extend([model(&[text("x")]), user(&[text("more")])]);
        let later = agents.ask(&contents, &[]).await;
        assert_eq!(
            (&later.key, later.match_kind),
            (&session.key, MatchKind::Continued)
        );
    }
}

#[tokio::test]
async fn callers_and_sub_agents_have_sessions_of_their_own() {
    let agents = TestAgents::new();
    let start = [user(&[text("go")])];
    let main = agents.ask(&start, &[]).await;
    let other_caller = SessionRequest {
        caller: "other",
        ..MAIN
    };

    let theirs = agents.visit(other_caller, &start).await;
    let sub = agents.ask(&[user(&[text("look for bugs")])], &[]).await;
    let again = agents.ask(&start, &[]).await;

    assert_ne!(theirs.key, main.key);
    assert_ne!(sub.key.id, main.key.id);
    assert_eq!(again.key, main.key);
    assert_ne!(
        theirs.conversation.items[0].prefix,
        main.conversation.items[0].prefix
    );
}

#[tokio::test]
async fn a_resumed_session_that_repeats_results_continues() {
    let agents = TestAgents::new();
    let start = [
        user(&[text("go")]),
        model(&[call("1")]),
        user(&[result("1", "A")]),
    ];
    let first = agents.ask(&start, &[text("done")]).await;

    let resumed = [
        user(&[text("go")]),
        model(&[
            json!({"functionCall": {"name": "f", "args": {"path": "a"}, "id": "1"}, "thoughtSignature": "skip"}),
        ]),
        user(&[result("1", "A"), result("1", "A")]),
        model(&[text("done")]),
        user(&[text("next")]),
    ];
    let later = agents.ask(&resumed, &[]).await;

    assert_eq!(
        (later.key, later.match_kind),
        (first.key, MatchKind::Continued)
    );
}

#[tokio::test]
async fn contents_of_one_chunk_each_are_one_answer() {
    let agents = TestAgents::new();
    let thought = json!({"text": "hm", "thought": true});
    let signature = json!({"text": "", "thoughtSignature": "s"});
    let chunks = [thought, text("Hel"), text("lo"), signature];
    let first = agents.ask(&[user(&[text("go")])], &chunks).await;

    let mut contents = vec![user(&[text("go")])];
    contents.extend(chunks.iter().map(|part| model(std::slice::from_ref(part))));
    contents.push(user(&[text("more")]));
    let later = agents.ask(&contents, &[]).await;

    assert_eq!(
        (&later.key, later.match_kind),
        (&first.key, MatchKind::Continued)
    );
    let answer_item = &later.conversation.items[1];
    assert_eq!((answer_item.content, answer_item.last_content), (2, 3));
    let whole = [
        contents[0].clone(),
        model(&[text("Hello")]),
        user(&[text("more")]),
    ];
    let whole = agents.ask(&whole, &[]).await;
    assert_eq!(
        whole.conversation.items[2].prefix,
        later.conversation.items[2].prefix
    );
}

#[tokio::test]
async fn a_compressed_session_continues() {
    let agents = TestAgents::new();
    let mut contents = vec![user(&[introduction(), text("go")])];
    let first = agents.ask(&contents, &[text("A")]).await;
    contents.extend([
        model(&[text("A")]),
        user(&[text("Generate a new <state_snapshot>")]),
    ]);
    let snapshot = format!(
        "<state_snapshot>{}</state_snapshot>",
        "all of it ".repeat(9)
    );
    let mut helper = agents.visit(HELPER, &contents).await;
    assert_eq!(
        (&helper.key, helper.match_kind),
        (&first.key, MatchKind::Continued)
    );
    let (one, two) = snapshot.split_at(70);
    let summary = [text("\n"), text(one), text(two), text("\n")];
    answered(&mut helper, &summary, STOP).await;

    let compressed = [
        user(&[introduction(), text(&snapshot)]),
        model(&[text("Got it. Thanks for the additional context!")]),
        user(&[text("next")]),
    ];
    let later = agents.ask(&compressed, &[text("B")]).await;
    assert_eq!(
        (&later.key, later.match_kind),
        (&first.key, MatchKind::Rewritten)
    );
    let more = [
        compressed.as_slice(),
        &[model(&[text("B")]), user(&[text("more")])],
    ]
    .concat();
    let later = agents.ask(&more, &[]).await;
    assert_eq!(
        (&later.key, later.match_kind),
        (&first.key, MatchKind::Continued)
    );
}

#[tokio::test]
async fn a_helper_call_for_the_choice_of_a_model_starts_a_session() {
    let agents = TestAgents::new();
    let contents = [user(&[introduction()]), user(&[text("go")])];
    let helper = agents.visit(HELPER, &contents).await;
    assert_eq!(helper.state.turns, 0);

    let main = agents
        .ask(&[user(&[introduction(), text("go")])], &[])
        .await;

    assert_eq!(
        (main.key, main.match_kind),
        (helper.key, MatchKind::Continued)
    );
    assert_eq!((main.state.turns, main.state.started), (1, false));
}

#[tokio::test]
async fn a_helper_call_without_a_session_is_not_stored() {
    let agents = TestAgents::new();
    let contents = [user(&[text("Summarize the user's primary intent")])];
    let one = agents.visit(HELPER, &contents).await;
    let other = agents.visit(HELPER, &contents).await;
    assert_eq!(
        (&one.key, one.match_kind),
        (&other.key, MatchKind::Transient)
    );
    assert_eq!(agents.sessions.store().count(), 0);
}

#[tokio::test]
async fn a_part_of_a_conversation_finds_its_hidden_results() {
    let agents = TestAgents::new();
    let contents = [
        user(&[text("go")]),
        model(&[call("1")]),
        user(&[result("1", "secret")]),
    ];
    let mut main = agents.visit(MAIN, &contents).await;
    let secret = main.conversation.items[2].clone();
    main.note_mut(&secret).replaced = Some("hidden".to_owned());
    main.save().await;

    let part = [
        &contents[1..],
        &[model(&[text("done")]), user(&[text("next")])],
    ]
    .concat();
    let helper = agents.visit(HELPER, &part).await;

    assert_eq!(helper.key, main.key);
    let note = helper.note(&helper.conversation.items[1]).unwrap();
    assert_eq!(note.replaced.as_deref(), Some("hidden"));
}

#[tokio::test]
async fn conversations_with_one_equal_result_have_sessions_of_their_own() {
    let agents = TestAgents::new();
    let conversation = |prompt: &str| {
        [
            user(&[text(prompt)]),
            model(&[call("1")]),
            user(&[result("1", "(empty)")]),
        ]
    };
    let mut first = agents.visit(MAIN, &conversation("fix the build")).await;
    let noted = first.conversation.items[2].clone();
    first.note_mut(&noted).context = Some("checked".to_owned());
    first.save().await;

    let other = agents.visit(MAIN, &conversation("read the terms")).await;

    assert_eq!(other.match_kind, MatchKind::New);
    assert_ne!(other.key, first.key);
}

#[tokio::test]
async fn a_session_is_found_by_as_many_items_as_it_keeps() {
    for (added, match_kind) in [
        (MAX_PREFIXES - 1, MatchKind::Continued),
        (MAX_PREFIXES, MatchKind::New),
    ] {
        let agents = TestAgents::new();
        let start = user(&[text("go")]);
        agents.visit(MAIN, std::slice::from_ref(&start)).await;
        let history = history(&[start, user(&vec![text("x"); added])]);

        let later = agents.sessions.open(MAIN, Some(&history)).await.unwrap();

        assert_eq!(later.match_kind, match_kind, "{added}");
    }
}

#[tokio::test]
async fn a_repeated_prompt_is_new_in_the_last_step_only() {
    let agents = TestAgents::new();
    let mut contents = vec![user(&[text("yes")])];
    let mut first = agents.visit(MAIN, &contents).await;
    let prompt = first.conversation.items[0].clone();
    assert!(first.is_evaluated(&prompt, true));
    first.note_mut(&prompt).denied = Some("no".to_owned());
    first.save().await;

    contents.extend([model(&[text("A")]), user(&[text("yes")])]);
    let history = history(&contents);
    let later = agents.sessions.open(MAIN, Some(&history)).await.unwrap();

    let again = &later.conversation.items[2];
    assert!(!later.is_evaluated(again, true));
    assert!(later.is_evaluated(again, false));
    assert!(later.note(&later.conversation.items[0]).is_some());
    assert!(later.note(again).is_none());
}

#[tokio::test]
async fn an_item_that_was_in_a_last_step_has_its_own_note_only() {
    let agents = TestAgents::new();
    let mut contents = vec![user(&[text("yes")])];
    let mut first = agents.open_and_see(&contents).await;
    let prompt = first.conversation.items[0].clone();
    first.note_mut(&prompt).denied = Some("no".to_owned());
    first.save().await;
    contents.extend([model(&[text("A")]), user(&[text("yes")])]);
    agents.open_and_see(&contents).await;

    contents.extend([model(&[text("B")]), user(&[text("next")])]);
    let later = agents.open_and_see(&contents).await;
    let rewritten = [&[model(&[text("C")])], &contents[..]].concat();
    let rewritten = agents.open_and_see(&rewritten).await;

    let items = &later.conversation.items;
    assert!(later.note(&items[0]).is_some());
    assert!(later.note(&items[2]).is_none());
    let moved = &rewritten.conversation.items[1];
    assert!(rewritten.note(moved).is_some());
}

#[tokio::test]
async fn a_named_session_is_found_by_its_name() {
    let agents = TestAgents::new();
    let named = SessionRequest {
        named: Some(("mine", SessionSource::Path)),
        ..MAIN
    };
    let one = agents.visit(named, &[user(&[text("a")])]).await;
    let other = agents.visit(named, &[user(&[text("b")])]).await;
    agents
        .sessions
        .record_reported_event("caller", "mine", EventName::BeforeTool)
        .await;
    let third = agents.visit(named, &[user(&[text("c")])]).await;

    assert_eq!((one.key.id.as_str(), &one.key), ("mine", &other.key));
    assert_eq!(third.state.turns, 3);
    assert!(third.state.reported.contains(&EventName::BeforeTool));
    let unnamed = agents.visit(MAIN, &[user(&[text("a")])]).await;
    assert_ne!(unnamed.key, one.key);
}

#[tokio::test]
async fn a_helper_call_has_the_denial_of_a_prompt_in_front_of_its_own() {
    let agents = TestAgents::new();
    let named = Some(("mine", SessionSource::Path));
    let main = SessionRequest { named, ..MAIN };
    let helper = SessionRequest { named, ..HELPER };
    let prompts = [user(&[text("a")]), user(&[text("b"), text("c")])];
    agents.visit(main, &prompts[..1]).await;
    let mut denied = agents.visit(main, &prompts).await;
    let item = denied.conversation.items[2].clone();
    denied.note_mut(&item).denied = Some("no".to_owned());
    denied.save().await;

    for part in [&prompts[..], &prompts[1..]] {
        let question = user(&[text("and now?")]);
        let contents = [&[model(&[text("A")])][..], part, &[question][..]].concat();
        let history = history(&contents);
        let session = agents.sessions.open(helper, Some(&history)).await.unwrap();
        let items = &session.conversation.items;
        assert!(session.note(&items[items.len() - 2]).is_some());
    }
}

#[tokio::test]
async fn prompts_end_where_requests_ended() {
    let agents = TestAgents::new();
    let (denied, next) = (user(&[text("a")]), user(&[text("b"), text("c")]));
    agents.visit(MAIN, std::slice::from_ref(&denied)).await;
    let both = [denied, next];

    let later = agents.visit(MAIN, &both).await;
    let prompts = later.prompts();
    let texts = prompts
        .iter()
        .map(|prompt| later.prompt_text(prompt, &history(&both)).unwrap());
    assert_eq!(texts.collect::<Vec<_>>(), ["a", "b\n\nc"]);
    assert_eq!(prompts[0].contents, 0..1);

    let fresh = TestAgents::new().visit(MAIN, &both).await;
    let prompts = fresh.prompts();
    assert_eq!(prompts.len(), 1);
    assert_eq!(
        (prompts[0].contents.clone(), prompts[0].items.clone()),
        (0..2, 0..3)
    );
}
