//! Property tests of recorded conversations that agents split, resend, roll back or repeat.

use std::collections::BTreeSet;

use proptest::{prelude::*, test_runner::TestRunner};
use serde_json::{Value, json};

use super::{HELPER, MAIN, MAX_TOKENS, TestAgents, answered, history, recorded::recordings};
use crate::{
    dialect::ItemKind,
    session::{Session, SessionRequest},
};

/// Next request of an agent.
#[derive(Debug, Clone, Copy)]
enum Move {
    /// Sends the next step.
    Next,
    /// Sends the same step again.
    Again,
    /// Goes back by so many steps.
    Back(usize),
    /// Makes a helper call with the end of the conversation.
    Helper,
}

/// One move of one of two callers, and the seed for the spelling of the conversation.
fn random_move() -> impl Strategy<Value = (Move, usize, u64)> {
    let moves = prop_oneof![
        5 => Just(Move::Next),
        1 => Just(Move::Again),
        1 => (1_usize..4).prop_map(Move::Back),
        2 => Just(Move::Helper),
    ];
    (moves, 0_usize..2, any::<u64>())
}

#[test]
fn each_item_is_new_once_and_hidden_results_stay_hidden() {
    let all = conversations();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let moves = prop::collection::vec(random_move(), 1..40);
    let config = ProptestConfig {
        cases: 200,
        source_file: Some(file!()),
        ..ProptestConfig::default()
    };

    let outcome = TestRunner::new(config).run(&(0..all.len(), moves), |(conversation, moves)| {
        runtime.block_on(make_moves(&all[conversation], &moves));
        Ok(())
    });

    if let Err(error) = outcome {
        panic!("{error}");
    }
}

/// Returns the longest conversation of each recording.
fn conversations() -> Vec<Vec<Value>> {
    let longest = |requests: Vec<super::recorded::Recorded>| {
        let contents = requests.into_iter().map(|request| request.contents);
        contents.max_by_key(Vec::len).unwrap()
    };
    recordings()
        .into_iter()
        .map(|(_, requests)| longest(requests))
        .collect()
}

async fn make_moves(conversation: &[Value], moves: &[(Move, usize, u64)]) {
    let fixture = TestAgents::new();
    let mut agents = ["one", "other"].map(|caller| Agent {
        visit: SessionRequest { caller, ..MAIN },
        step: None,
        evaluated: BTreeSet::new(),
        session: None,
    });
    let steps = step_ends(conversation);
    for (next, agent, seed) in moves {
        let agent = &mut agents[*agent];
        let step = match (next, agent.step) {
            (Move::Helper, step) => {
                let end = step.map_or(0, |step| steps[step]);
                agent.ask_helper(&fixture, &conversation[..end]).await;
                continue;
            }
            (Move::Next, Some(step)) => (step + 1).min(steps.len() - 1),
            (Move::Again, Some(step)) => step,
            (Move::Back(by), Some(step)) => step.saturating_sub(*by),
            (Move::Next | Move::Again | Move::Back(_), None) => 0,
        };
        agent.step = Some(step);
        agent
            .ask(&fixture, conversation, (step, steps[step]), *seed)
            .await;
    }
}

/// Returns the numbers of contents after which the model is called.
fn step_ends(conversation: &[Value]) -> Vec<usize> {
    let by_model = |at: usize| {
        conversation
            .get(at)
            .is_none_or(|content| content["role"] == "model")
    };
    let ends = (1..=conversation.len()).filter(|end| !by_model(end - 1) && by_model(*end));
    ends.collect()
}

struct Agent {
    visit: SessionRequest<'static>,
    step: Option<usize>,
    /// Items that hooks received: the step, and the number of the item in it.
    evaluated: BTreeSet<(usize, usize)>,
    session: Option<String>,
}

impl Agent {
    async fn ask(
        &mut self,
        fixture: &TestAgents,
        conversation: &[Value],
        (step, end): (usize, usize),
        mut seed: u64,
    ) {
        let request = respell(&conversation[..end], &mut seed);
        let read = history(&request);
        let mut session = fixture
            .sessions
            .open(self.visit, Some(&read))
            .await
            .unwrap();
        let id = self.session.get_or_insert_with(|| session.key.id.clone());
        assert_eq!(*id, session.key.id, "another session");
        for (number, at) in session.conversation.last_step().enumerate() {
            let item = session.conversation.items[at].clone();
            let is_new = !session.is_evaluated(&item, true);
            assert_eq!(is_new, self.evaluated.insert((step, number)), "{item:?}");
            session.mark_evaluated(&item);
            if is_new && item.kind == ItemKind::Result {
                session.note_mut(&item).replaced = Some("hidden".to_owned());
            }
        }
        session.save().await;
        assert_all_hidden(&session);
        if draw(&mut seed, 3) > 0 {
            let answer = conversation[end..]
                .iter()
                .take_while(|content| content["role"] == "model");
            let parts = answer.flat_map(|content| content["parts"].as_array().unwrap());
            let parts: Vec<Value> = parts.cloned().collect();
            answered(&mut session, &parts, MAX_TOKENS).await;
        }
    }

    /// Calls the model as gemini-cli chooses a model: with the last contents and a prompt.
    async fn ask_helper(&self, fixture: &TestAgents, contents: &[Value]) {
        let mut part = contents[contents.len().saturating_sub(8)..].to_vec();
        part.push(json!({"role": "user", "parts": [{"text": "and now?"}]}));
        let role = HELPER.role;
        let visit = SessionRequest { role, ..self.visit };
        let session = fixture
            .sessions
            .open(visit, Some(&history(&part)))
            .await
            .unwrap();
        assert_all_hidden(&session);
    }
}

#[track_caller]
fn assert_all_hidden(session: &Session) {
    let items = session.conversation.items.iter();
    for result in items.filter(|item| item.kind == ItemKind::Result) {
        let note = session.note(result);
        assert!(
            note.is_some_and(|note| note.replaced.is_some()),
            "{result:?}"
        );
    }
}

/// Returns the conversation in another spelling.
fn respell(conversation: &[Value], seed: &mut u64) -> Vec<Value> {
    let mut contents = Vec::new();
    for content in conversation {
        let parts = content["parts"].as_array().unwrap();
        if content["role"] != "model" {
            let parts = with_repeated_results(parts, seed);
            contents.push(json!({"parts": parts, "role": content["role"]}));
            continue;
        }
        let mut open = Vec::new();
        let pieces: Vec<Value> = parts
            .iter()
            .flat_map(|part| split_text(part, seed))
            .collect();
        for piece in pieces {
            open.push(piece);
            if draw(seed, 3) == 0 {
                contents.push(json!({"role": "model", "parts": std::mem::take(&mut open)}));
            }
        }
        contents.push(json!({"role": "model", "parts": open}));
    }
    contents
}

/// Returns the parts, with some results repeated. A result without an id repeats none.
fn with_repeated_results(parts: &[Value], seed: &mut u64) -> Vec<Value> {
    let mut repeated = Vec::new();
    for part in parts {
        let has_id = ["functionResponse", "function_response"]
            .iter()
            .any(|name| part[name].get("id").is_some());
        let times = if has_id { 1 + draw(seed, 2) } else { 1 };
        repeated.extend((0..times).map(|_| part.clone()));
    }
    repeated
}

/// Splits a part of the model if it is a text, and adds parts that do not count.
fn split_text(part: &Value, seed: &mut u64) -> Vec<Value> {
    let mut pieces = Vec::new();
    match part["text"]
        .as_str()
        .filter(|_| part.get("thought").is_none())
    {
        Some(text) => {
            let mut rest = text;
            while !rest.is_empty() {
                let chars = 1 + draw(seed, rest.chars().count());
                let at = rest
                    .char_indices()
                    .nth(chars)
                    .map_or(rest.len(), |(at, _)| at);
                let (piece, left) = rest.split_at(at);
                pieces.push(json!({ "text": piece }));
                rest = left;
            }
        }
        None => pieces.push(part.clone()),
    }
    match draw(seed, 4) {
        0 => pieces.push(json!({"text": "", "thoughtSignature": "s"})),
        1 => pieces.push(json!({"text": "hm", "thought": true})),
        _ => (),
    }
    pieces
}

/// Returns a random number below `below`, and updates the seed.
fn draw(seed: &mut u64, below: usize) -> usize {
    *seed = seed
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    usize::try_from(*seed >> 33).unwrap() % below.max(1)
}
