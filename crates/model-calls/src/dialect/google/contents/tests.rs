use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{
    dialect::{
        Detail, RequestLine,
        document::{parse_document, write_array},
        read_stable_form, recognize_call,
    },
    model::RequestMutation,
};

const TALK: &str = r#"[{"role":"user","parts":[{"text":"my ssn is 1","x":1.0}]},
 {"role":"model","parts":[{"text":"hm","thought":true},{"text":"calling"},{"functionCall":{"name":"f","args":{"p":1e2}},"thoughtSignature":"s"}]},
 {"role":"user","parts":[{"functionResponse":{"name":"f","response":{}}}]},
 {"role":"model","parts":[{"text":"do"},{"text":"ne"}]}]"#;

fn message(role: Role, content: &str) -> Message {
    let content = content.to_owned();
    Message { role, content }
}

fn parse(text: &str) -> Result<Contents> {
    let document = parse_document(format!(r#"{{"contents":{text}}}"#).into())?;
    Contents::read(document.children(&["contents"])?.unwrap_or_default())
}

fn write_into(contents: &mut Contents, returned: &[Message]) -> bool {
    contents.write(returned).unwrap()
}

fn texts(contents: &Contents) -> Vec<String> {
    let texts = contents.elements();
    texts
        .iter()
        .map(|element| String::from_utf8(element.to_vec()).unwrap())
        .collect()
}

/// Writes `returned` into [`TALK`] and gives the contents, one text each.
fn write(returned: &[(Role, &str)]) -> Vec<String> {
    let mut contents = parse(TALK).unwrap();
    let returned: Vec<Message> = returned
        .iter()
        .map(|(role, text)| message(*role, text))
        .collect();
    assert!(write_into(&mut contents, &returned));
    texts(&contents)
}

use Role::{Model, User};

#[test]
fn calls_thoughts_and_responses_are_not_shown() {
    let shown = parse(TALK).unwrap().messages();
    let expected = [
        message(User, "my ssn is 1"),
        message(Model, "calling"),
        message(Model, "done"),
    ];
    assert_eq!(shown, expected);
}

#[test]
fn a_changed_text_keeps_the_position_of_all_other_parts() {
    let texts = write(&[(User, "[SSN]"), (Model, "calling"), (Model, "done")]);
    assert_eq!(
        texts[0],
        r#"{"role":"user","parts":[{"text":"[SSN]","x":1.0}]}"#
    );
    assert!(texts[1].contains(r#""args":{"p":1e2}},"thoughtSignature":"s""#));
}

#[test]
fn several_texts_become_one() {
    let texts = write(&[(User, "my ssn is 1"), (Model, "calling"), (Model, "DONE")]);
    assert_eq!(texts[3], r#"{"role":"model","parts":[{"text":"DONE"}]}"#);
}

#[test]
fn a_deleted_text_keeps_the_call_of_its_content() {
    let texts = write(&[(User, "my ssn is 1"), (Model, "done")]);
    assert_eq!(texts.len(), 4);
    assert!(!texts[1].contains("calling") && texts[1].contains("functionCall"));
}

#[test]
fn an_emptied_text_is_a_deleted_one() {
    let deleted = write(&[(User, "my ssn is 1"), (Model, "done")]);

    let emptied = write(&[(User, "my ssn is 1"), (Model, ""), (Model, "done")]);
    assert_eq!(emptied, deleted);
    let inserted = write(&[
        (User, "my ssn is 1"),
        (User, ""),
        (Model, "calling"),
        (Model, "done"),
    ]);
    assert_eq!(inserted, texts(&parse(TALK).unwrap()));
}

#[test]
fn no_content_is_inserted_between_a_call_and_its_response() {
    let texts = write(&[
        (User, "my ssn is 1"),
        (Model, "calling"),
        (User, "EXTRA"),
        (Model, "done"),
    ]);
    assert!(texts[2].contains("functionResponse"));
    assert_eq!(texts[3], r#"{"role":"user","parts":[{"text":"EXTRA"}]}"#);
}

#[test]
fn a_response_with_text_still_follows_its_call() {
    let talk = r#"[{"role":"model","parts":[{"text":"a"},{"functionCall":{}}]},
        {"role":"user","parts":[{"functionResponse":{}},{"text":"b"}]}]"#;
    let mut contents = parse(talk).unwrap();
    assert!(write_into(
        &mut contents,
        &[
            message(Model, "a"),
            message(User, "NEW"),
            message(User, "b")
        ]
    ));
    assert!(texts(&contents)[1].contains("functionResponse"));
    assert!(texts(&contents)[2].contains("NEW"));
}

#[test]
fn an_edit_that_removes_all_contents_is_ignored() {
    let mut contents = parse(r#"[{"parts":[{"text":"a"}]}]"#).unwrap();
    assert!(!write_into(&mut contents, &[]));
    assert!(!write_into(&mut contents, &[message(User, "")]));
    assert_eq!(texts(&contents), [r#"{"parts":[{"text":"a"}]}"#]);
}

#[test]
fn malformed_contents_are_refused() {
    for text in [
        "5",
        r#""hi""#,
        "[5]",
        r#"[{"parts":"a"}]"#,
        r#"[{"parts":["a"]}]"#,
        r#"[{"parts":[{"text":5}]}]"#,
        r#"[{"parts":[{"text":"a","text":"b"}]}]"#,
    ] {
        assert!(parse(text).is_err(), "{text}");
    }
}

proptest! {
    #[test]
    fn writing_unchanged_messages_changes_no_byte(texts in prop::collection::vec("[a-z\"\\\\é]{0,6}", 1..6)) {
        let items: Vec<String> = texts
            .iter()
            .map(|text| json!({"parts": [{"text": text}]}).to_string())
            .collect();
        let text = format!("[{}]", items.join(","));
        let mut contents = parse(&text).unwrap();
        let shown = contents.messages();
        prop_assert!(write_into(&mut contents, &shown));
        prop_assert_eq!(write_array(contents.elements()), text);
    }

    #[test]
    fn written_messages_are_read_back(old in prop::collection::vec("[a-c]{1,2}", 1..5), new in prop::collection::vec("[a-c]{1,2}", 1..5)) {
        let items: Vec<Value> = old
            .iter()
            .map(|text| json!({"role": "user", "parts": [{"text": text}]}))
            .collect();
        let mut contents = parse(&Value::Array(items).to_string()).unwrap();
        let returned: Vec<Message> = new.iter().map(|text| message(User, text)).collect();
        prop_assert!(write_into(&mut contents, &returned));
        prop_assert_eq!(contents.messages(), returned);
    }
}

#[test]
fn the_next_hook_sees_a_removal_of_all_text_that_is_written() {
    let line = RequestLine {
        method: &http::Method::POST,
        path: "/v1beta/models/m:generateContent",
        query: "",
        api: None,
    };
    let call = recognize_call(line).unwrap().unwrap().call.unwrap();
    let removal = json!({ "messages": [{ "role": "user", "content": "" }] });
    let removal = RequestMutation {
        fields: removal.as_object().unwrap().clone(),
        ..RequestMutation::default()
    };
    for other in [
        r#"{"text":"t","thought":true}"#,
        r#"{"functionCall":{"name":"f"}}"#,
        r#"{"text":"y"}"#,
    ] {
        let body = format!(
            r#"{{"contents":[{{"role":"user","parts":[{{"text":"secret"}}]}},
                {{"role":"model","parts":[{other},{{"text":"x"}}]}}]}}"#
        );
        let document = parse_document(body.into()).unwrap();
        let mut contents = Contents::read(document.children(&["contents"]).unwrap().unwrap());
        let is_written = write_into(contents.as_mut().unwrap(), &[message(User, "")]);
        let mut request = read_stable_form(&call, &document, Detail::Whole).unwrap();

        request.apply(&removal);

        assert_eq!(request.messages.is_empty(), is_written, "{other}");
    }
}
