//! Texts that a policy masks, in every copy of a stream.

use super::*;

const ITEM_DONE: &str = "response.output_item.done";

#[test]
fn a_masked_text_is_masked_in_every_copy() {
    let data = stream_of("r1", &[text(&["as", "", "ks"]), text(&["yes"])]);
    let stream = masked(&data);
    assert_eq!(checked(&stream).0, "a*k*ye*");
    assert!(!stream.contains("ask") && !stream.contains("obfuscation"));
}

#[test]
fn thoughts_are_masked_in_every_copy() {
    let data = stream_of("r1", &[Item::Reasoning("sss".to_owned()), text(&["a"])]);
    let stream = masked(&data);
    assert!(!stream.contains("sss"), "{stream}");
    checked(&stream);
}

/// A stream of two messages with an annotation in front of an event of each, or behind its end.
fn annotated(texts: [&str; 2], name: &str) -> Vec<Bytes> {
    let mut events = Vec::new();
    for data in stream_of("r1", &texts.map(|piece| text(&[piece, "b"]))) {
        let event: Value = serde_json::from_slice(&data).unwrap();
        let ends_item = event["type"] == ITEM_DONE;
        if ends_item {
            events.push(event.clone());
        }
        if event["type"] == name {
            let annotation = json!({ "type": "url_citation", "url": "u", "title": "t" });
            events.push(json!({
                "type": "response.output_text.annotation.added",
                "item_id": event.get("item_id").unwrap_or(&event["item"]["id"]),
                "output_index": event["output_index"],
                "content_index": 0,
                "annotation_index": 0,
                "annotation": annotation,
            }));
        }
        if !ends_item {
            events.push(event);
        }
    }
    let numbered = events.into_iter().enumerate().map(|(number, mut event)| {
        event["sequence_number"] = number.into();
        event.to_string().into()
    });
    numbered.collect()
}

#[test]
fn annotations_are_sent_with_a_text_of_which_the_end_is_held_back() {
    let annotations = |texts: [&str; 2], name: &str| -> Vec<u64> {
        let stream = masked(&annotated(texts, name));
        if name != ITEM_DONE {
            // Other events do not follow the end of their item.
            checked(&stream);
        }
        let events = parsed(&stream).into_iter();
        let events = events.filter(|event| {
            let name = event["type"].as_str().unwrap();
            name.ends_with("annotation.added")
        });
        events
            .map(|event| event["output_index"].as_u64().unwrap())
            .collect()
    };
    for name in ["response.output_text.done", ITEM_DONE] {
        assert_eq!(annotations(["ab", "cd"], name), [0, 1], "{name}");
        // Those of a masked text refer to places that it no longer has.
        assert_eq!(annotations(["as", "cd"], name), [1], "{name}");
    }
}

#[test]
fn annotations_of_a_removed_text_are_dropped() {
    let data = annotated(["ab", "cd"], "response.output_text.done");
    let mut chunks = chunks_of(&data);
    let edit = json!({ "candidates": [{ "content": { "parts": [] } }] });
    let edit = crate::model::ResponseMutation::read(&edit).unwrap();
    for chunk in &mut chunks {
        if chunk.plain_texts().any(|text| text == "ab" || text == "b") && !chunk.has_finish_reason()
        {
            chunk.write(&edit).unwrap();
        }
    }
    let stream = written(&chunks);
    let events = parsed(&stream).into_iter();
    let names: Vec<String> = events.map(|event| event["type"].to_string()).collect();
    let annotations = names.iter().filter(|name| name.contains("annotation"));
    assert_eq!(annotations.count(), 0, "{stream}");
}
