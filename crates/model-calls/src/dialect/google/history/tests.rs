use serde_json::Value;

use super::*;
use crate::dialect::document::parse_document;

const LOOP: &str = r#"[{"role":"user","parts":[{"text":"<session_context>x</session_context>"},{"text":"go"}]},
 {"role":"model","parts":[{"text":"I look"},{"functionCall":{"id":"1","name":"read","args":{"p":"a"}},"thoughtSignature":"s"},{"functionCall":{"id":"2","name":"read","args":{"p":"b"}}}]},
 {"role":"user","parts":[{"functionResponse":{"id":"1","name":"read","response":{"output":"A"}}},{"functionResponse":{"id":"2","name":"read","response":{"output":"B"}}}]},
 {"role":"model","parts":[{"text":"done"}]}]"#;

fn document(contents: &str) -> Document {
    parse_document(format!(r#"{{"a": 1.0, "contents": {contents}}}"#).into()).unwrap()
}

fn history(contents: &str) -> History {
    History::read(&document(contents)).unwrap().unwrap()
}

/// Edits `contents`, and gives each content as it goes out.
fn edited(contents: &str, edit: impl FnOnce(&mut History)) -> Vec<String> {
    let mut document = document(contents);
    let mut history = History::read(&document).unwrap().unwrap();
    edit(&mut history);
    history.write(&mut document).unwrap();
    let list = document.list(&["contents"]).unwrap().unwrap();
    let texts = list
        .iter()
        .map(|content| String::from_utf8(content.to_vec()).unwrap());
    texts.collect()
}

#[test]
fn unedited_contents_keep_their_bytes() {
    let mut document = document(LOOP);
    let history = History::read(&document).unwrap().unwrap();
    history.write(&mut document).unwrap();
    assert!(!document.is_edited());

    let written = edited(LOOP, |history| {
        history.edit(0).unwrap().append_text("more").unwrap();
    });
    let before = history.contents();
    assert!(written.iter().skip(1).eq(before.iter().skip(1)));
    assert!(written[0].ends_with(r#"{"text":"go"},{"text":"more"}]}"#));
}

#[test]
fn results_find_their_calls_by_id_and_by_order() {
    let args = |contents: &str, at| {
        let results = history(contents).results(at).unwrap().into_iter();
        let results = results.filter(|result| result.content == at);
        results
            .map(|result| result.args.to_string())
            .collect::<Vec<_>>()
    };
    let expected = [r#"{"p":"a"}"#, r#"{"p":"b"}"#];
    assert_eq!(args(LOOP, 2), expected);
    let swapped = LOOP.replace(r#""functionCall":{"id":"1""#, r#""functionCall":{"id":"3""#);
    assert_eq!(args(&swapped, 2), expected);
    let nameless = LOOP.replace(r#""id":"1","#, "").replace(r#""id":"2","#, "");
    assert_eq!(args(&nameless, 2), expected);
    let unknown = LOOP.replace(r#""name":"read","response""#, r#""name":"x","response""#);
    assert_eq!(args(&unknown, 2), ["null", "null"]);
    let split = r#"[{"role":"model","parts":[{"functionCall":{"name":"f","args":{"n":1}}}]},
        {"role":"model","parts":[{"functionCall":{"name":"f","args":{"n":2}}}]},
        {"role":"user","parts":[{"functionResponse":{"name":"f","response":{}}}]},
        {"role":"user","parts":[{"functionResponse":{"name":"f","response":{}}}]}]"#;
    assert_eq!(args(split, 2), [r#"{"n":1}"#]);
    assert_eq!(args(split, 3), [r#"{"n":2}"#]);
}

#[test]
fn a_replaced_result_keeps_nothing_of_the_original() {
    let secret = r#"[{"role":"user","parts":[
        {"functionResponse":{"id":"1","name":"f","response":{"output":"secret"},"parts":[{"inlineData":{"data":"secret"}}]}},
        {"functionResponse":{"id":"2","name":"g","response":{"output":"fine"}}},
        {"functionResponse":{"name":"f","id":"1","response":{"output":"secret"},"parts":[{"inline_data":{"data":"secret"}}]}},
        {"inlineData":{"data":"secret"}},{"text":"and now?"}]}]"#;

    let written = edited(secret, |history| {
        history
            .edit(0)
            .unwrap()
            .replace_result(0, "hidden")
            .unwrap();
    });

    let result = r#"{"functionResponse":{"id":"1","name":"f","response":{"error":"hidden"}}}"#;
    let other = r#"{"functionResponse":{"id":"2","name":"g","response":{"output":"fine"}}}"#;
    let again = r#"{"functionResponse":{"name":"f","id":"1","response":{"error":"hidden"}}}"#;
    let expected =
        format!(r#"{{"role":"user","parts":[{result},{other},{again},{{"text":"and now?"}}]}}"#);
    assert_eq!(written, [expected]);
}

#[test]
fn a_context_is_appended_to_the_text_of_a_result() {
    let result_with_context = |response: &str| {
        let contents = format!(
            r#"[{{"parts":[{{"function_response":{{"name":"f","response":{response}}}}}]}}]"#
        );
        let written = edited(&contents, |history| {
            history.edit(0).unwrap().append_to_result(0, "C").unwrap();
        });
        let value: Value = serde_json::from_str(&written[0]).unwrap();
        value["parts"][0]["function_response"]["response"].to_string()
    };
    assert_eq!(
        result_with_context(r#"{"x":"y","output":"o"}"#),
        r#"{"x":"y","output":"o\n\nC"}"#
    );
    assert_eq!(
        result_with_context(r#"{"error":"e","n":1.0}"#),
        r#"{"error":"e\n\nC","n":1.0}"#
    );
    assert_eq!(
        result_with_context(r#"{"a":"1","b":"2"}"#),
        r#"{"a":"1","b":"2","hook_context":"C"}"#
    );
    assert_eq!(
        result_with_context(r#"{"user_id":"1","userId":"2"}"#),
        r#"{"user_id":"1","userId":"2","hook_context":"C"}"#
    );
    assert_eq!(result_with_context("null"), r#"{"hook_context":"C"}"#);
}

#[test]
fn prepended_text_follows_the_introduction() {
    let written = edited(LOOP, |history| history.prepend_text("L").unwrap());
    assert!(written[0].ends_with(r#"</session_context>"},{"text":"L"},{"text":"go"}]}"#));
    let bare = r#"[{"role":"model","parts":[{"text":"a"}]}]"#;
    let written = edited(bare, |history| history.prepend_text("L").unwrap());
    assert_eq!(written[0], r#"{"role":"user","parts":[{"text":"L"}]}"#);
    assert_eq!(written.len(), 2);
}

#[test]
fn edits_do_not_shift_other_edits() {
    let hidden = [r#"{"role":"model","parts":[]}"#.to_owned()];

    let written = edited(LOOP, |history| {
        history.edit(0).unwrap().insert_after(&hidden).unwrap();
        history.edit(1).unwrap().insert_after(&hidden).unwrap();
        history.remove_contents(0, 1, &[(0, 0)]).unwrap();
        history.edit(2).unwrap().replace_result(1, "R").unwrap();
        history.edit(2).unwrap().append_text("more").unwrap();
    });

    assert_eq!(written.len(), 5);
    assert_eq!(
        written[0],
        r#"{"role":"user","parts":[{"text":"<session_context>x</session_context>"}]}"#
    );
    assert_eq!(written[2], hidden[0]);
    assert!(written[3].contains(r#"{"output":"A"}"#));
    assert!(written[3].ends_with(r#"{"error":"R"}}},{"text":"more"}]}"#));
}

#[test]
fn calls_go_with_their_results_however_they_were_split() {
    let written = edited(LOOP, |history| history.remove_contents(2, 4, &[]).unwrap());
    assert_eq!(written.len(), 2);
    assert!(written[1].ends_with(r#"[{"text":"I look"}]}"#));
    let split = r#"[{"role":"user","parts":[{"text":"go"}]},
        {"role":"model","parts":[{"functionCall":{"name":"f"}}]},
        {"role":"model","parts":[{"text":""}]},
        {"role":"user","parts":[{"functionResponse":{"name":"f","response":{}}}]}]"#;
    let written = edited(split, |history| history.remove_contents(3, 4, &[]).unwrap());
    assert_eq!(written.len(), 2);
    assert!(!written.concat().contains("function"));
}

#[test]
fn a_request_that_is_wrapped_to_be_counted_has_a_history() {
    let text = format!(r#"{{"generateContentRequest":{{"model":"m","contents":{LOOP}}}}}"#);
    let mut document = parse_document(text.into()).unwrap();
    let mut history = History::read(&document).unwrap().unwrap();
    history
        .edit(2)
        .unwrap()
        .replace_result(0, "hidden")
        .unwrap();
    history.write(&mut document).unwrap();
    let written = document.to_text();
    assert!(written.starts_with(r#"{"generateContentRequest":{"model":"m","contents":[{"role""#));
    assert!(written.contains("hidden") && !written.contains(r#""output":"A""#));
}
