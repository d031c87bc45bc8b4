use serde_json::json;

use super::*;
use crate::FreeFields;

const NAMES: Names = Names::Fields(&FreeFields::new(&[]));

fn parse(text: &str) -> Result<Document, DocumentError> {
    Document::parse(Bytes::from(text.to_owned()), NAMES)
}

fn document(text: &str) -> Document {
    parse(text).unwrap()
}

#[track_caller]
fn check(text: &str, edit: impl FnOnce(&mut Document), expected: &str) {
    let mut document = document(text);
    edit(&mut document);
    assert_eq!(document.to_bytes(), expected);
}

#[test]
fn an_edit_keeps_every_other_byte() {
    let text = " { \"a\" : 1.0 ,\n \"b\\u0062\":[ 1e5 ] , \"c\" : \"\\u00e9\" }\n";
    check(text, |_| (), text);
    check(
        text,
        |document| document.set(&["c"], &json!(7)).unwrap(),
        " { \"a\" : 1.0 ,\n \"b\\u0062\":[ 1e5 ] , \"c\" : 7 }\n",
    );
    check(
        text,
        |document| document.set(&["d", "dd"], &json!({"x": null})).unwrap(),
        " { \"a\" : 1.0 ,\n \"b\\u0062\":[ 1e5 ] , \"c\" : \"\\u00e9\" ,\"d\":{\"x\":null}}\n",
    );
}

#[test]
fn values_below_a_field_are_counted() {
    let document = document(r#"{"a": [{"b": [1, 2], "c": 3}, {"b": [4]}], "d": "text"}"#);
    let counts = |field: &str| {
        let levels = 0..4;
        levels
            .map(|levels| document.count(&[field], levels).unwrap())
            .collect::<Vec<_>>()
    };

    assert_eq!(document.values(), 11);
    assert_eq!(counts("a"), [1, 2, 3, 3]);
    assert_eq!(counts("d"), [1, 0, 0, 0]);
    assert_eq!(counts("e"), [0, 0, 0, 0]);
}

#[test]
fn values_below_the_laid_out_levels_are_counted_with_all_others() {
    let document = document(r#"{"a": [[[[[[[1, 2]]]]]]]}"#);
    assert_eq!((document.values(), document.all_values()), (8, 10));
}

#[test]
fn fields_are_removed_and_added() {
    check(
        "{\"a\": 1, \"b\": 2}",
        |document| document.remove(&["a"]).unwrap(),
        "{\"b\": 2}",
    );
    check(
        "{}",
        |document| document.set(&["a"], &json!(1)).unwrap(),
        "{\"a\":1}",
    );
}

#[test]
fn edited_fields_are_listed_with_their_new_values() {
    let mut document = document(r#"{"a": 1, "\u0062": 2, "c": 3}"#);
    document.set(&["b"], &json!("new")).unwrap();
    document.set(&["d"], &json!(4)).unwrap();
    document.remove(&["a"]).unwrap();
    let fields = document
        .fields()
        .map(|(key, value)| (key.into_owned(), value));
    let expected = [("b", r#""new""#), ("c", "3"), ("d", "4")];
    let expected = expected.map(|(key, value)| (key.to_owned(), Bytes::from(value)));
    assert_eq!(fields.collect::<Vec<_>>(), expected);
}

#[test]
fn a_duplicate_field_is_refused() {
    assert!(parse("{\"a\":1,\"a\":2}").is_err());
    let both = Bytes::from_static(b"{\"toolConfig\":1,\"tool_config\":2}");
    assert!(Document::parse(both.clone(), NAMES).is_err());
    let odd = document("{\"ToolConfig\":1}");
    assert!(odd.get(&["toolConfig", "tool_config"]).is_err());
    assert!(odd.has(&["toolConfig", "tool_config"]));
    let both = Document::from_checked(both).unwrap();
    assert!(both.get(&["toolConfig", "tool_config"]).is_err());
}

#[test]
fn a_field_is_detected_in_every_spelling() {
    for key in [
        "contents",
        "\\u0063ontents",
        "content\\u0073",
        "c\\u006fntents",
    ] {
        let document = document(&format!("{{\"x\":0,\"{key}\":1,\"contentz\":2}}"));
        assert_eq!(
            document.get(&["contents"]).unwrap(),
            Some(json!(1)),
            "{key}"
        );
    }
    for key in [
        "Contents",
        "contentS",
        "contents_",
        "con_tents",
        "\\u0043ontents",
        "content\\u0053",
        "contents\\u005f",
    ] {
        let document = document(&format!("{{\"{key}\":1}}"));
        assert!(document.get(&["contents"]).is_err(), "{key}");
        assert!(document.has(&["contents"]), "{key}");
    }
}

#[test]
fn only_an_object_is_a_document() {
    for text in ["[]", "5", "", "{} x", "{\"a\":}"] {
        assert!(parse(text).is_err(), "{text}");
    }
    assert!(Document::parse(Bytes::from_static(b"{\"a\":\"\xff\"}"), NAMES).is_err());
}

#[test]
fn escaped_keys_are_noticed_at_every_depth() {
    let deep = |inner: &str| format!("{}{inner}{}", "{\"a\":[".repeat(20), "]}".repeat(20));
    let has = |text: &str| document(text).may_have_escaped_keys();

    assert!(!has(&deep(r#"{"b":"\u0062\n"}"#)));
    assert!(has(&deep(r#"{"\u0062":1}"#)));
    assert!(has(r#"{"a":1,"b\"":2}"#));
    assert!(!Document::empty().may_have_escaped_keys());

    let mut edited = document("{}");
    edited.set(&["a"], &json!({"b": 1})).unwrap();
    assert!(edited.may_have_escaped_keys());
}

#[test]
fn fields_are_written_by_their_exact_names() {
    let text = r#"{ "userId": 1, "user_id": 2, "\u0061": 3, "b": 4 }"#;
    let mut document = Document::from_checked(Bytes::from_static(text.as_bytes())).unwrap();
    let json = |text: &'static str| Some(Bytes::from(text));

    document.write_fields([
        ("user_id", json("20")),
        ("a", None),
        ("c", json("5")),
        ("d", json("6")),
        ("c", json("7")),
        ("e", None),
        ("d", None),
    ]);

    let expected = r#"{ "userId": 1, "user_id": 20, "b": 4 ,"c":7}"#;
    assert_eq!(document.to_bytes(), expected);
}

#[test]
fn a_removed_field_is_set_in_its_place() {
    let set = |document: &mut Document, name: &str, value: u8| {
        document.set(&[name], &json!(value)).unwrap();
    };
    check(
        r#"{"a": 1, "b": 2}"#,
        |document| {
            document.remove(&["a"]).unwrap();
            set(document, "a", 3);
        },
        r#"{"a": 3, "b": 2}"#,
    );
    check(
        "{}",
        |document| {
            set(document, "a", 1);
            set(document, "b", 2);
            document.remove(&["a"]).unwrap();
            set(document, "a", 3);
        },
        r#"{"a":3,"b":2}"#,
    );
}
