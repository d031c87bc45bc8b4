//! Texts that a policy masks, in every copy of a stream.

use super::*;

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

/// A stream of two messages with an annotation behind the text of each.
fn annotated(texts: [&str; 2]) -> Vec<Bytes> {
    let mut events = Vec::new();
    for data in stream_of("r1", &texts.map(|piece| text(&[piece, "b"]))) {
        let event: Value = serde_json::from_slice(&data).unwrap();
        if event["type"] == "response.output_text.done" {
            let annotation = json!({ "type": "url_citation", "url": "u", "title": "t" });
            events.push(json!({
                "type": "response.output_text.annotation.added",
                "item_id": event["item_id"],
                "output_index": event["output_index"],
                "content_index": 0,
                "annotation_index": 0,
                "annotation": annotation,
            }));
        }
        events.push(event);
    }
    let numbered = events.into_iter().enumerate().map(|(number, mut event)| {
        event["sequence_number"] = number.into();
        event.to_string().into()
    });
    numbered.collect()
}

#[test]
fn annotations_are_sent_with_a_text_of_which_the_end_is_held_back() {
    let annotations = |texts: [&str; 2]| -> Vec<u64> {
        let stream = masked(&annotated(texts));
        checked(&stream);
        let events = parsed(&stream).into_iter();
        let events = events.filter(|event| {
            let name = event["type"].as_str().unwrap();
            name.ends_with("annotation.added")
        });
        events
            .map(|event| event["output_index"].as_u64().unwrap())
            .collect()
    };
    assert_eq!(annotations(["ab", "cd"]), [0, 1]);
    // Those of a masked text refer to places that it no longer has.
    assert_eq!(annotations(["as", "cd"]), [1]);
}
