//! Differences of two JSON documents: where, of what kind, how large. Never their content.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

/// Changes that are listed; the others are counted.
const MAX_CHANGES: usize = 32;

/// Bytes that are scanned for one diff. Beyond it, a container that differs is one change.
const MAX_SCANNED_BYTES: usize = 2 * 1024 * 1024;

/// Depth to which containers are compared.
const MAX_DEPTH: usize = 16;

/// Keys that model APIs define. Others are chosen by agents, models and tools, and may be
/// content, so pointers have `*` instead.
const KNOWN_KEYS: &[&str] = &[
    "args",
    "blob",
    "cachedContent",
    "cached_content",
    "candidates",
    "code",
    "content",
    "contents",
    "data",
    "description",
    "error",
    "executableCode",
    "codeExecutionResult",
    "fileData",
    "finishReason",
    "finish_reason",
    "functionCall",
    "function_call",
    "functionCallingConfig",
    "functionDeclarations",
    "function_declarations",
    "functionResponse",
    "function_response",
    "generationConfig",
    "generation_config",
    "id",
    "index",
    "inlineData",
    "inline_data",
    "maxOutputTokens",
    "message",
    "mimeType",
    "model",
    "modelVersion",
    "mode",
    "name",
    "parameters",
    "parametersJsonSchema",
    "parts",
    "project",
    "promptFeedback",
    "request",
    "response",
    "responseId",
    "responseMimeType",
    "responseSchema",
    "role",
    "safetyRatings",
    "safetySettings",
    "session_id",
    "stopSequences",
    "systemInstruction",
    "system_instruction",
    "temperature",
    "text",
    "thinkingConfig",
    "thought",
    "thoughtSignature",
    "toolConfig",
    "tool_config",
    "tools",
    "topK",
    "topP",
    "usageMetadata",
    "usage_metadata",
    "allowedFunctionNames",
];

/// Differences of two documents.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct DocumentDiff {
    /// Bytes before the edits.
    pub before_bytes: u64,
    /// Bytes after the edits.
    pub after_bytes: u64,
    /// First changes in the order of the document.
    pub changes: Vec<ValueChange>,
    /// Number of changes that are not listed.
    pub more_changes: u64,
}

/// One difference of two documents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct ValueChange {
    /// JSON pointer into the document. Keys that the model API does not define are `*`. A
    /// response in chunks begins with the number of the chunk.
    pub pointer: Box<str>,
    /// Kind of the change.
    pub kind: ChangeKind,
    /// Bytes of the value before the edit.
    pub before_bytes: u64,
    /// Bytes of the value after the edit.
    pub after_bytes: u64,
}

/// Kind of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ChangeKind {
    /// The value exists after the edit only.
    Added,
    /// The value exists before the edit only.
    Removed,
    /// The value differs after the edit.
    Changed,
}

/// The parsed children of an object or array.
enum Children<'a> {
    Fields(BTreeMap<String, &'a RawValue>),
    Items(Vec<&'a RawValue>),
    None,
}

impl DocumentDiff {
    /// Largest size that its changes can have.
    pub(crate) const MAX_BYTES: usize = MAX_CHANGES * (size_of::<ValueChange>() + 64);

    /// Returns the differences; `None` if there are none.
    pub fn between(before: &[u8], after: &[u8]) -> Option<Self> {
        if before == after {
            return None;
        }
        let mut diff = Self {
            before_bytes: before.len() as u64,
            after_bytes: after.len() as u64,
            ..Self::default()
        };
        diff.compare(before, after, "");
        Some(diff)
    }

    /// Adds the differences of one chunk of a response.
    pub fn add_chunk(&mut self, number: u64, before: &[u8], after: &[u8]) {
        self.before_bytes += before.len() as u64;
        self.after_bytes += after.len() as u64;
        if self.changes.len() >= MAX_CHANGES {
            // Comparing would only count.
            self.more_changes += 1;
        } else if before != after {
            self.compare(before, after, &format!("/{number}"));
        }
    }

    /// Returns the bytes that it owns outside of itself.
    pub(crate) fn heap_bytes(&self) -> usize {
        let pointers = self.changes.iter().map(|change| change.pointer.len());
        self.changes.capacity() * size_of::<ValueChange>() + pointers.sum::<usize>()
    }

    fn compare(&mut self, before: &[u8], after: &[u8], pointer: &str) {
        let parse = |text| serde_json::from_slice::<&RawValue>(text).ok();
        let mut walk = DiffWalk {
            diff: self,
            budget: MAX_SCANNED_BYTES,
            pointer: pointer.to_owned(),
            depth: 0,
        };
        match (parse(before), parse(after)) {
            (Some(before), Some(after)) => walk.values(before, after),
            _ if before.is_empty() => walk.push(ChangeKind::Added, 0, after.len()),
            _ if after.is_empty() => walk.push(ChangeKind::Removed, before.len(), 0),
            _ => walk.push(ChangeKind::Changed, before.len(), after.len()),
        }
    }
}

/// The comparison of two documents, and where it is.
struct DiffWalk<'a> {
    diff: &'a mut DocumentDiff,
    budget: usize,
    pointer: String,
    depth: usize,
}

impl DiffWalk<'_> {
    fn values(&mut self, before: &RawValue, after: &RawValue) {
        let (old, new) = (before.get(), after.get());
        if old == new {
            return;
        }
        let scanned = old.len() + new.len();
        if self.depth >= MAX_DEPTH || scanned > self.budget {
            return self.push(ChangeKind::Changed, old.len(), new.len());
        }
        self.budget -= scanned;
        self.depth += 1;
        match (Children::of(before), Children::of(after)) {
            (Children::Fields(old), Children::Fields(new)) => self.fields(&old, &new),
            (Children::Items(old), Children::Items(new)) => self.items(&old, &new),
            _ => self.push(ChangeKind::Changed, old.len(), new.len()),
        }
        self.depth -= 1;
    }

    fn fields(
        &mut self,
        before: &BTreeMap<String, &RawValue>,
        after: &BTreeMap<String, &RawValue>,
    ) {
        for (key, old) in before {
            self.within(known_key(key), |walk| match after.get(key) {
                Some(new) => walk.values(old, new),
                None => walk.push(ChangeKind::Removed, old.get().len(), 0),
            });
        }
        for (key, new) in after.iter().filter(|(key, _)| !before.contains_key(*key)) {
            self.within(known_key(key), |walk| {
                walk.push(ChangeKind::Added, 0, new.get().len());
            });
        }
    }

    /// Compares what is between the common begin and the common end of two arrays.
    fn items(&mut self, before: &[&RawValue], after: &[&RawValue]) {
        let equal = |pair: &(&&RawValue, &&RawValue)| pair.0.get() == pair.1.get();
        let start = before.iter().zip(after).take_while(equal).count();
        let shorter = before.len().min(after.len()) - start;
        let ends = before.iter().rev().zip(after.iter().rev());
        let end = ends.take_while(equal).count().min(shorter);
        let old = before.get(start..before.len() - end).unwrap_or_default();
        let new = after.get(start..after.len() - end).unwrap_or_default();
        for index in 0..old.len().max(new.len()) {
            let position = (start + index).to_string();
            self.within(&position, |walk| match (old.get(index), new.get(index)) {
                (Some(old), Some(new)) => walk.values(old, new),
                (Some(old), None) => walk.push(ChangeKind::Removed, old.get().len(), 0),
                (None, Some(new)) => walk.push(ChangeKind::Added, 0, new.get().len()),
                (None, None) => (),
            });
        }
    }

    fn within(&mut self, segment: &str, compare: impl FnOnce(&mut Self)) {
        let length = self.pointer.len();
        self.pointer.push('/');
        self.pointer.push_str(segment);
        compare(self);
        self.pointer.truncate(length);
    }

    fn push(&mut self, kind: ChangeKind, before: usize, after: usize) {
        if self.diff.changes.len() >= MAX_CHANGES {
            self.diff.more_changes += 1;
            return;
        }
        self.diff.changes.push(ValueChange {
            pointer: Box::from(self.pointer.as_str()),
            kind,
            before_bytes: before as u64,
            after_bytes: after as u64,
        });
    }
}

impl<'a> Children<'a> {
    fn of(value: &'a RawValue) -> Self {
        let text = value.get();
        match text.as_bytes().first() {
            Some(b'{') => serde_json::from_str(text).map_or(Self::None, Self::Fields),
            Some(b'[') => serde_json::from_str(text).map_or(Self::None, Self::Items),
            _ => Self::None,
        }
    }
}

fn known_key(key: &str) -> &str {
    let known = KNOWN_KEYS.iter().find(|known| **known == key);
    known.copied().unwrap_or("*")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn diff(before: &Value, after: &Value) -> Vec<(String, ChangeKind)> {
        let (before, after) = (before.to_string(), after.to_string());
        let diff = DocumentDiff::between(before.as_bytes(), after.as_bytes());
        let changes = diff.unwrap_or_default().changes.into_iter();
        changes
            .map(|change| (change.pointer.to_string(), change.kind))
            .collect()
    }

    #[test]
    fn a_change_has_the_pointer_of_the_innermost_value() {
        let before = json!({ "contents": [{ "parts": [{ "text": "a" }, { "text": "b" }] }] });
        let after = json!({ "contents": [{ "parts": [{ "text": "a" }, { "text": "B" }] }],
            "generationConfig": { "temperature": 0 } });

        let found = diff(&before, &after);

        let changed = ("/contents/0/parts/1/text".to_owned(), ChangeKind::Changed);
        let added = ("/generationConfig".to_owned(), ChangeKind::Added);
        assert_eq!(found, [changed, added]);
        assert!(diff(&before, &before).is_empty());
    }

    #[test]
    fn inserted_and_removed_items_do_not_shift_the_others() {
        let before = json!({ "contents": [1, 2, 3, 4] });

        let inserted = diff(&before, &json!({ "contents": [1, 2, 9, 3, 4] }));
        let removed = diff(&before, &json!({ "contents": [1, 4] }));

        assert_eq!(inserted, [("/contents/2".to_owned(), ChangeKind::Added)]);
        let removed: Vec<ChangeKind> = removed.into_iter().map(|change| change.1).collect();
        assert_eq!(removed, [ChangeKind::Removed, ChangeKind::Removed]);
    }

    #[test]
    fn keys_that_agents_choose_are_not_kept() {
        let before = json!({ "contents": [{ "args": { "CANARY": 1, "text": 1 } }] });
        let after = json!({ "contents": [{ "args": { "CANARY": 2, "text": 1 } }] });

        let found = diff(&before, &after);

        let expected = ("/contents/0/args/*".to_owned(), ChangeKind::Changed);
        assert_eq!(found, [expected]);
    }

    #[test]
    fn the_number_of_changes_and_the_scanned_bytes_are_bounded() {
        let many = |value: u32| json!({ "contents": vec![value; 1000] });
        let large = |end: &str| json!({ "text": "x".repeat(MAX_SCANNED_BYTES) + end });
        let found = |before: Value, after: Value| {
            DocumentDiff::between(before.to_string().as_bytes(), after.to_string().as_bytes())
        };

        let many = found(many(1), many(2)).unwrap();
        let large = found(large("a"), large("b")).unwrap();

        assert_eq!((many.changes.len(), many.more_changes), (32, 968));
        assert_eq!(large.changes.len(), 1);
        assert_eq!(&*large.changes[0].pointer, "");
    }

    #[test]
    fn documents_that_are_no_json_differ_as_a_whole() {
        let diff = DocumentDiff::between(b"{", b"{}").unwrap();

        assert_eq!(diff.changes[0].kind, ChangeKind::Changed);
    }
}
