use bytes::Bytes;
use serde_json::{Value, json};

use super::*;

const CALLER: Caller<'_> = b"key";

fn document(contents: &Value) -> Document {
    let text = json!({ "contents": contents }).to_string();
    Document::parse(Bytes::from(text)).unwrap()
}

fn user(text: &str) -> Value {
    json!({"role": "user", "parts": [{ "text": text }]})
}

fn model(text: &str) -> Value {
    json!({"role": "model", "parts": [{ "text": text }]})
}

fn list(items: &[Value]) -> Value {
    Value::Array(items.to_vec())
}

#[track_caller]
fn check(denied: &[Value], later: &[Value], expected: &[Value]) {
    let memory = Memory::default();
    memory.deny(CALLER, &document(&list(denied)), "no").unwrap();
    let mut later = document(&list(later));
    memory.clean(CALLER, &mut later).unwrap();
    let left: Value = later.get(&["contents"]).unwrap().unwrap();
    assert_eq!(left, list(expected));
}

#[test]
fn a_denied_prompt_and_what_was_told_are_taken_out() {
    check(
        &[user("a"), model("A"), user("bad")],
        &[user("a"), model("A"), user("bad"), model("no"), user("c")],
        &[user("a"), model("A"), user("c")],
    );
}

#[test]
fn a_prompt_denied_by_an_error_is_taken_out_too() {
    check(&[user("bad")], &[user("bad"), user("c")], &[user("c")]);
}

#[test]
fn the_same_request_again_is_judged_again() {
    check(&[user("bad")], &[user("bad")], &[user("bad")]);
}

#[test]
fn what_is_allowed_later_is_no_longer_denied() {
    let memory = Memory::default();
    let asked = document(&list(&[user("a")]));
    memory.deny(CALLER, &asked, "no").unwrap();
    memory.allow(CALLER, &asked).unwrap();
    let mut later = document(&list(&[user("a"), model("A"), user("b")]));
    memory.clean(CALLER, &mut later).unwrap();
    assert!(!later.is_edited());
}

#[test]
fn tool_results_go_with_their_calls() {
    let call = json!({"role": "model", "parts": [{"text": "I look"}, {"functionCall": {"id": "1", "name": "f"}, "thoughtSignature": "s"}]});
    let again = json!({"role": "model", "parts": [{"text": "I look"}, {"functionCall": {"id": "2", "name": "f"}}]});
    let result =
        json!({"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {}}}]});
    check(
        &[user("a"), call, result.clone()],
        &[user("a"), again, result, model("no"), user("c")],
        &[user("a"), model("I look"), user("c")],
    );
}

#[test]
fn what_gemini_cli_says_of_itself_stays() {
    let introduction = json!({"text": "<session_context>\nx\n</session_context>"});
    let first = json!({"role": "user", "parts": [introduction, {"text": "bad"}]});
    let rest = json!({"role": "user", "parts": [introduction]});
    check(
        std::slice::from_ref(&first),
        &[first.clone(), model("no"), user("c")],
        &[rest, user("c")],
    );
}

#[test]
fn callers_are_apart() {
    let memory = Memory::default();
    memory
        .deny(CALLER, &document(&list(&[user("bad")])), "no")
        .unwrap();
    let mut later = document(&list(&[user("bad"), model("no"), user("c")]));
    memory.clean(b"other", &mut later).unwrap();
    assert!(!later.is_edited());
    assert_ne!(memory.unnamed(CALLER, b"a"), memory.unnamed(b"", b"a"));
    assert_eq!(memory.unnamed(CALLER, b"a"), memory.unnamed(CALLER, b"a"));
}

#[test]
fn a_stopped_session_goes_on_with_its_next_prompt() {
    let memory = Memory::default();
    memory.stop(CALLER, "s", "enough");
    let result = json!({"role": "user", "parts": [{"functionResponse": {"name": "f"}}]});
    let looping = document(&list(&[user("a"), result]));
    let prompt = document(&list(&[user("b")]));
    assert_eq!(
        memory.stopped(CALLER, "s", &looping).unwrap().as_deref(),
        Some("enough")
    );
    assert_eq!(memory.stopped(CALLER, "other", &looping).unwrap(), None);
    assert_eq!(memory.stopped(CALLER, "s", &prompt).unwrap(), None);
    assert_eq!(memory.stopped(CALLER, "s", &looping).unwrap(), None);
}

#[test]
fn denied_prompts_in_a_row_take_no_other_along() {
    let memory = Memory::default();
    let (first, second) = (user("bad"), user("worse"));
    let asked = document(&list(&[first.clone(), second.clone()]));
    memory
        .deny(CALLER, &document(&list(std::slice::from_ref(&first))), "no")
        .unwrap();
    memory.deny(CALLER, &asked, "no").unwrap();

    let mut later = document(&list(&[first, second, user("c")]));
    memory.clean(CALLER, &mut later).unwrap();

    let left: Value = later.get(&["contents"]).unwrap().unwrap();
    assert_eq!(left, list(&[user("c")]));
}

#[test]
fn contents_without_parts_keep_their_places() {
    let empty = json!({"role": "model", "parts": []});
    let memory = Memory::default();
    let first = [user("bad")];
    let second = [
        user("bad"),
        model("no"),
        user("a"),
        empty.clone(),
        user("worse"),
    ];
    memory.deny(CALLER, &document(&list(&first)), "no").unwrap();
    memory
        .deny(CALLER, &document(&list(&second)), "no")
        .unwrap();

    let mut later = second.to_vec();
    later.extend([model("no"), user("c")]);
    let mut later = document(&list(&later));
    memory.clean(CALLER, &mut later).unwrap();

    let left: Value = later.get(&["contents"]).unwrap().unwrap();
    assert_eq!(left, list(&[user("a"), empty, user("c")]));
}

#[test]
fn a_request_is_never_emptied() {
    check(
        &[user("bad")],
        &[user("bad"), model("no")],
        &[user("bad"), model("no")],
    );
}
