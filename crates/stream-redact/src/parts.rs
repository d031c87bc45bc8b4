//! Masking of texts that may be parts of one text.

use std::{collections::BTreeSet, ops::Range, sync::Arc};

use super::{
    Mask, PatternSet,
    stream::{Found, MaskStream},
    window::MaskWindow,
};

/// Texts with their secrets replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MaskedParts {
    /// The texts with labels. That of a secret is in the text in which the secret begins.
    pub texts: Vec<String>,
    /// Names of the detectors and patterns that matched, each once.
    pub detectors: Vec<Arc<str>>,
}

impl Mask {
    /// Replaces every secret in texts that may be one text: those in each of them by
    /// itself, and those that begin in one and end in another. Returns `None` if there
    /// is none.
    pub fn mask_parts(&self, parts: &[&str]) -> Option<MaskedParts> {
        let joined = parts.concat();
        let mut found = self.found(&joined, 0);
        let mut end = 0;
        let places = parts.iter().map(|part| {
            let start = end;
            end += part.len();
            start..end
        });
        let places: Vec<Range<usize>> = places.collect();
        if parts.len() > 1 {
            let own = parts.iter().zip(&places);
            found.extend(own.flat_map(|(part, place)| self.found(part, place.start)));
        }
        if found.is_empty() {
            return None;
        }
        found.sort_by_key(|found| (found.secret.start, found.rule));
        let rules: BTreeSet<usize> = found.iter().map(|found| found.rule).collect();
        let secrets = merged(found);
        let texts = places
            .into_iter()
            .map(|place| self.rules.masked_part(&joined, place, &secrets));
        Some(MaskedParts {
            texts: texts.collect(),
            detectors: self.rules.names(rules.into_iter()).collect(),
        })
    }

    /// Returns the secrets of a text that begins at `offset`.
    fn found(&self, text: &str, offset: usize) -> Vec<Found> {
        let mut flow = MaskStream::default();
        flow.search(&self.rules, MaskWindow::whole(text));
        let found = flow.into_found().into_iter();
        let found = found.map(|found| Found {
            secret: found.secret.start + offset..found.secret.end + offset,
            ..found
        });
        found.collect()
    }
}

impl PatternSet {
    /// Returns a part of a text, with labels in the place of the secrets that begin in it and
    /// without those that end in it.
    fn masked_part(&self, text: &str, part: Range<usize>, secrets: &[Found]) -> String {
        let mut out = String::new();
        let mut at = part.start;
        let first = secrets.partition_point(|found| found.secret.end <= part.start);
        let secrets = secrets.iter().skip(first);
        for found in secrets.take_while(|found| found.secret.start < part.end) {
            let secret = &found.secret;
            if secret.start >= part.start {
                out.push_str(text.get(at..secret.start).unwrap_or_default());
                let name = self.all.get(found.rule).map_or("", |rule| &rule.name);
                let mut label = self.labels.open(name, &mut out);
                label.take(text.as_bytes().get(secret.clone()).unwrap_or_default());
                label.close(&mut out);
            }
            at = secret.end.min(part.end);
        }
        out.push_str(text.get(at..part.end).unwrap_or_default());
        out
    }
}

/// Merges overlapping secrets, which are in order, under the pattern of the first one.
fn merged(found: Vec<Found>) -> Vec<Found> {
    let mut merged: Vec<Found> = Vec::new();
    for next in found {
        match merged.last_mut() {
            Some(last) if next.secret.start < last.secret.end => {
                last.secret.end = last.secret.end.max(next.secret.end);
            }
            _ => merged.push(next),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Style;

    fn masked(parts: &[&str]) -> Vec<String> {
        let mask = Mask::new(&["aws_key", "email"], &[], &Style::Label).unwrap();
        let masked = mask.mask_parts(parts).map(|masked| masked.texts);
        masked.unwrap_or_else(|| parts.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn a_secret_is_masked_wherever_parts_split_it() {
        assert_eq!(
            masked(&["key AKIAIOS", "FODNN7", "EXAMPLE ok"]),
            ["key [REDACTED:aws_key]", "", " ok"]
        );
        assert_eq!(
            masked(&["ann@example", ".com, bob@example.com"]),
            ["[REDACTED:email]", ", [REDACTED:email]"]
        );
    }

    #[test]
    fn a_secret_beside_the_text_of_another_part_is_masked() {
        assert_eq!(
            masked(&["total 0", "AKIAIOSFODNN7EXAMPLE", "x"]),
            ["total 0", "[REDACTED:aws_key]", "x"]
        );
    }

    #[test]
    fn a_part_that_is_a_secret_by_itself_hides_no_longer_one() {
        assert_eq!(
            masked(&["ann@example.com", "pany.org."]),
            ["[REDACTED:email]", "."]
        );
    }

    #[test]
    fn parts_without_secrets_are_unchanged() {
        let mask = Mask::new(&["email"], &[], &Style::Label).unwrap();
        assert_eq!(mask.mask_parts(&["a", "b", ""]), None);
    }
}
