//! Masking of texts that may be parts of one text.

use std::{collections::BTreeSet, ops::Range, sync::Arc};

use super::{
    Mask, PatternSet,
    search::{Found, PatternSearch},
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

/// A secret in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundSecret {
    /// Bytes of the secret in the text.
    pub place: Range<usize>,
    /// Label in the place of the secret.
    pub label: String,
    /// Name of the detector or pattern.
    pub detector: Arc<str>,
}

/// A part of a text that a secret covers.
#[derive(Debug, Clone)]
struct CoveredPart {
    place: Range<usize>,
    rule: usize,
    /// The secret, if it begins here.
    begun: Option<String>,
}

impl Mask {
    /// Replaces every secret in texts that may be one text: those in each of them by
    /// itself, and those that begin in one and end in another. Returns `None` if there
    /// is none.
    pub fn mask_parts(&self, parts: &[&str]) -> Option<MaskedParts> {
        self.mask_groups(parts, &[(0..parts.len()).collect()])
    }

    /// Replaces every secret in texts as [`Self::mask_parts`] does, where the texts of each group
    /// may be one text. A group consists of indices of `texts`. A text may be in several
    /// groups; one in none is not masked.
    pub fn mask_groups(&self, texts: &[&str], groups: &[Vec<usize>]) -> Option<MaskedParts> {
        let own: Vec<Vec<Found>> = texts.iter().map(|text| self.found(text)).collect();
        let is_joined = groups.iter().any(|group| group.len() > 1);
        if !is_joined && own.iter().all(Vec::is_empty) {
            return None;
        }
        let mut covered = vec![Vec::new(); texts.len()];
        let mut rules = BTreeSet::new();
        for group in groups {
            for (text, part) in self.covered(texts, group, &own, &mut rules) {
                if let Some(parts) = covered.get_mut(text) {
                    parts.push(part);
                }
            }
        }
        if rules.is_empty() {
            return None;
        }
        let texts = texts.iter().zip(covered);
        let texts = texts.map(|(text, covered)| self.rules.masked_part(text, covered));
        Some(MaskedParts {
            texts: texts.collect(),
            detectors: self.rules.names(rules.into_iter()).collect(),
        })
    }

    /// Returns the secrets of a complete text, in order. Those that overlap are one, with the label
    /// of the first.
    pub fn secrets(&self, text: &str) -> Vec<FoundSecret> {
        let secrets = merged(self.found(text)).into_iter().filter_map(|found| {
            let secret = text.get(found.secret.clone())?;
            Some(FoundSecret {
                label: self.rules.label(found.rule, secret),
                detector: self.rules.all.get(found.rule)?.name.clone(),
                place: found.secret,
            })
        });
        secrets.collect()
    }

    /// Returns the parts of texts that the secrets of a group cover, with the indices of the
    /// texts, and adds the patterns of the secrets to `rules`. `own` are the secrets of each
    /// text by itself.
    fn covered(
        &self,
        texts: &[&str],
        group: &[usize],
        own: &[Vec<Found>],
        rules: &mut BTreeSet<usize>,
    ) -> Vec<(usize, CoveredPart)> {
        let mut joined = String::new();
        let (mut places, mut found) = (Vec::new(), Vec::new());
        for index in group {
            let start = joined.len();
            joined.push_str(texts.get(*index).copied().unwrap_or_default());
            places.push((*index, start..joined.len()));
            let own = own.get(*index).into_iter().flatten();
            found.extend(own.map(|found| Found {
                secret: found.secret.start + start..found.secret.end + start,
                ..*found
            }));
        }
        if group.len() > 1 {
            found.extend(self.found(&joined));
        }
        rules.extend(found.iter().map(|found| found.rule));
        let secrets = merged(found).into_iter();
        let parts = secrets.flat_map(|found| covered_parts(&joined, &places, &found));
        parts.collect()
    }

    /// Returns the secrets of a text.
    fn found(&self, text: &str) -> Vec<Found> {
        PatternSearch::default().search(&self.rules, MaskWindow::whole(text))
    }
}

impl PatternSet {
    /// Returns a text, with labels in the place of the secrets that begin in it and without
    /// those that end in it.
    fn masked_part(&self, text: &str, mut covered: Vec<CoveredPart>) -> String {
        covered.sort_by_key(|part| (part.place.start, part.rule));
        let mut out = String::new();
        let mut at = 0;
        for part in covered {
            if part.place.start >= at {
                out.push_str(text.get(at..part.place.start).unwrap_or_default());
                if let Some(secret) = part.begun {
                    out.push_str(&self.label(part.rule, &secret));
                }
            }
            at = at.max(part.place.end);
        }
        out.push_str(text.get(at..).unwrap_or_default());
        out
    }

    /// Returns the label of a secret that a pattern matched.
    fn label(&self, rule: usize, secret: &str) -> String {
        let mut out = String::new();
        let name = self.all.get(rule).map_or("", |rule| &rule.name);
        let mut label = self.labels.open(name, &mut out);
        label.take(secret.as_bytes());
        label.close(&mut out);
        out
    }
}

/// Returns the parts of texts that a secret of the joined text covers.
fn covered_parts(
    joined: &str,
    places: &[(usize, Range<usize>)],
    found: &Found,
) -> Vec<(usize, CoveredPart)> {
    let secret = &found.secret;
    let first = places.partition_point(|(_, place)| place.end <= secret.start);
    let places = places.iter().skip(first);
    let places = places.take_while(|(_, place)| place.start < secret.end);
    let parts = places.filter(|(_, place)| !place.is_empty());
    let parts = parts.map(|(index, place)| {
        let (start, end) = (secret.start.max(place.start), secret.end.min(place.end));
        let begun = (secret.start >= place.start).then(|| joined.get(secret.clone()));
        let part = CoveredPart {
            place: start - place.start..end - place.start,
            rule: found.rule,
            begun: begun.flatten().map(str::to_owned),
        };
        (*index, part)
    });
    parts.collect()
}

/// Orders secrets, and merges those that overlap under the pattern of the first one.
fn merged(mut found: Vec<Found>) -> Vec<Found> {
    found.sort_by_key(|found| (found.secret.start, found.rule));
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
    fn a_secret_is_masked_in_each_group_that_its_parts_are_in() {
        let mask = Mask::new(&["aws_key", "email"], &[], &Style::Label).unwrap();
        let texts = ["ann@exa", "- AKIAIOS", "mple.com ", "FODNN7EXAMPLE", "x"];
        let groups = [vec![0, 2], vec![1, 3], (0..5).collect()];

        let masked = mask.mask_groups(&texts, &groups).unwrap();

        let expected = ["[REDACTED:email]", "- [REDACTED:aws_key]", " ", "", "x"];
        assert_eq!(masked.texts, expected);
        assert_eq!(masked.detectors, ["email".into(), "aws_key".into()]);
    }

    #[test]
    fn overlapping_secrets_are_one() {
        let mask = Mask::new(&["aws_key", "email"], &[], &Style::Label).unwrap();
        let secret = |place: Range<usize>, detector: &str| FoundSecret {
            place,
            label: format!("[REDACTED:{detector}]"),
            detector: detector.into(),
        };
        assert_eq!(
            mask.secrets("é AKIAIOSFODNN7EXAMPLE@a.com, AKIAIOSFODNN7EXAMPLE"),
            [secret(3..29, "email"), secret(31..51, "aws_key")]
        );
    }

    #[test]
    fn parts_without_secrets_are_unchanged() {
        let mask = Mask::new(&["email"], &[], &Style::Label).unwrap();
        assert_eq!(mask.mask_parts(&["a", "b", ""]), None);
    }
}
