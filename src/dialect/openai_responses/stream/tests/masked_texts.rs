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
