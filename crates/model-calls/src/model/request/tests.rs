use proptest::{prelude::*, sample::select};

use super::*;

fn fields(value: &Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

fn merged(edits: &[Value]) -> RequestMutation {
    let mut mutation = RequestMutation::default();
    for edit in edits {
        mutation.merge(&fields(edit), false, &[]);
    }
    mutation
}

/// A value that changes nothing on its own, for one key.
fn edit_without_effect() -> impl Strategy<Value = Value> {
    select(vec![
        json!({ "model": null }),
        json!({ "model": "../evil" }),
        json!({ "messages": null }),
        json!({ "messages": [] }),
        json!({ "messages": "x" }),
        json!({ "messages": [{ "role": "user" }] }),
        json!({ "config": null }),
        json!({ "config": "x" }),
        json!({ "config": { "temperature": "x" } }),
        json!({ "generationConfig": { "stopSequences": 5 } }),
        json!({ "generationConfig": null }),
        json!({ "toolConfig": null }),
        json!({ "toolConfig": { "mode": "weird" } }),
        json!({ "systemInstruction": null }),
    ])
}

proptest! {
    #[test]
    fn an_edit_without_effect_replaces_no_earlier_one(
        useless in prop::collection::vec(edit_without_effect(), 1..4),
    ) {
        let edit = json!({
            "model": "other",
            "messages": [{ "role": "system", "content": "s" }, { "role": "user", "content": "***" }],
            "config": { "temperature": 0, "stopSequences": ["END"] },
            "systemInstruction": "S",
            "toolConfig": { "mode": "NONE" },
        });
        let edits = [vec![edit.clone()], useless].concat();

        prop_assert_eq!(Value::Object(merged(&edits).fields), edit);
    }
}

#[test]
fn generation_parameters_merge_key_by_key() {
    let mutation = merged(&[
        json!({"config": {"temperature": 0, "topK": 4}, "model": "a"}),
        json!({"config": {"temperature": 1}, "model": "b"}),
    ]);
    assert_eq!(
        Value::Object(mutation.fields),
        json!({"config": {"temperature": 1, "topK": 4}, "model": "b"})
    );
}

#[test]
fn parameters_of_a_wrong_type_keep_their_diagnostic_under_the_other_name() {
    let mut edit = fields(&json!({ "generationConfig": "x" }));

    unite_config(&mut edit);

    assert_eq!(Value::Object(edit.clone()), json!({ "config": "x" }));
    let mutation = RequestMutation {
        fields: edit,
        ..RequestMutation::default()
    };
    assert_eq!(mutation.unusable_fields(), ["config"]);
}

#[test]
fn system_messages_of_a_later_edit_are_added_to_the_earlier_ones() {
    let system = |text: &str| json!({ "role": "system", "content": text });
    let user = |text: &str| json!({ "role": "user", "content": text });
    let mask = json!({ "messages": [user("***"), system("a")] });

    let alone = merged(&[mask.clone(), json!({ "messages": [system("b")] })]);
    let with_conversation = merged(&[mask, json!({ "messages": [system("b"), user("new")] })]);

    let expected = [system("a"), system("b"), user("***")];
    assert_eq!(alone.fields["messages"], json!(expected));
    let expected = [system("a"), system("b"), user("new")];
    assert_eq!(with_conversation.fields["messages"], json!(expected));
}

#[test]
fn an_edit_of_the_earlier_messages_replaces_all_of_them() {
    let system = |text: &str| json!({ "role": "system", "content": text });
    let user = |text: &str| json!({ "role": "user", "content": text });
    let mut mutation = merged(&[json!({ "messages": [system("TOKEN=s3cret"), user("a")] })]);

    let masked = json!([system("TOKEN=***"), user("a")]);
    mutation.merge(&fields(&json!({ "messages": masked })), true, &[]);
    assert_eq!(mutation.fields["messages"], masked);

    let added = json!({ "messages": [system("b")] });
    mutation.merge(&fields(&added), true, &[]);
    let expected = json!([system("TOKEN=***"), system("b"), user("a")]);
    assert_eq!(mutation.fields["messages"], expected);
}

#[test]
fn an_unusable_value_is_reported_if_an_earlier_one_is_kept() {
    let mut mutation = merged(&[json!({ "model": "a", "config": { "topK": 1 } })]);

    let later = json!({ "model": 5, "config": { "topK": "x" }, "messages": [] });
    let ignored = mutation.merge(&fields(&later), false, &[]);

    assert_eq!(ignored, ["model", "topK"]);
}

#[test]
fn an_edit_that_removes_all_text_keeps_the_conversation_it_follows() {
    let user = |text: &str| json!({ "messages": [{ "role": "user", "content": text }] });
    let system = json!({ "messages": [{ "role": "system", "content": "s" }] });

    let emptied = merged(&[user("***"), user(""), system, user("")]);
    let replaced = merged(&[user("***"), user(""), user("new")]);

    assert_eq!(json!(emptied.earlier_messages), user("***")["messages"]);
    let system = json!({ "role": "system", "content": "s" });
    let expected = json!([system, { "role": "user", "content": "" }]);
    assert_eq!(emptied.fields["messages"], expected);
    assert_eq!(replaced.earlier_messages, []);
    assert_eq!(Value::Object(replaced.fields), user("new"));
}

#[test]
fn a_system_message_alone_leaves_the_messages_that_the_next_hook_sees() {
    let message = |role, content: &str| Message {
        role,
        content: content.to_owned(),
    };
    let mut request = LlmRequest {
        messages: vec![message(Role::User, "***")],
        ..LlmRequest::default()
    };

    let added = json!({ "messages": [{ "role": "system", "content": "s" }] });
    request.apply(&merged(&[added]));

    let expected = [message(Role::System, "s"), message(Role::User, "***")];
    assert_eq!(request.messages, expected);
}
