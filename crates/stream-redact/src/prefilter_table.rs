//! First-byte tables: which patterns may begin at an offset, given the byte before it
//! and the bytes after it. Ordinary text costs one look-up per byte.

use std::{array, ops::Range};

use super::{
    pattern::Pattern,
    pattern_bits::{ALL, Bits, EXAMINED_BYTES, Table, bit},
    prefilter::Prefilter,
    validators,
    window::MaskWindow,
};

/// For each examined byte, the patterns that it allows.
#[derive(Debug)]
pub(super) struct FirstByteTable {
    /// The first table is for the byte before a match, with which an escape may end.
    tables: [Table; EXAMINED_BYTES],
    /// The first table where no escape ends.
    apart: Table,
    /// Finds the few offsets for which the tables are worth reading.
    prefilter: Prefilter,
}

impl FirstByteTable {
    pub(super) fn new(rules: &[Pattern]) -> Self {
        let mut tables: [Table; EXAMINED_BYTES] = array::from_fn(|_| Table([0; 256]));
        let mut apart = Table([0; 256]);
        let [before, after @ ..] = &mut tables;
        for (at, rule) in rules.iter().enumerate() {
            before.let_through(bit(at), |byte| rule.may_follow_escape(byte));
            apart.let_through(bit(at), |byte| rule.may_follow(byte));
            let opening = rule.opening::<{ EXAMINED_BYTES - 1 }>();
            for (table, bytes) in after.iter_mut().zip(opening) {
                table.let_through(bit(at), |byte| bytes.contains(&byte));
            }
        }
        let prefilter = Prefilter::new(&tables);
        Self {
            tables,
            apart,
            prefilter,
        }
    }

    /// Returns the next offset in a range at which one of the wanted patterns may
    /// begin, and which of them.
    pub(super) fn next(
        &self,
        view: MaskWindow<'_>,
        range: Range<usize>,
        wanted: Bits,
    ) -> Option<(usize, Bits)> {
        let mut found = None;
        self.prefilter.find(view, range, |at| {
            let hits = self.at(view, at) & wanted;
            found = (hits != 0).then_some((at, hits));
            found.is_some()
        });
        found
    }

    /// Returns the patterns that may begin at an offset.
    fn at(&self, view: MaskWindow<'_>, at: usize) -> Bits {
        // At the start of the text there is no byte before.
        let [before, after @ ..] = &self.tables;
        let bytes = view.bytes(at..view.end().min(at + after.len()));
        let bits = after.iter().zip(bytes);
        let bits = bits.fold(ALL, |bits, (table, byte)| bits & table.of(*byte));
        let Some(last) = at.checked_sub(1).and_then(|previous| view.byte(previous)) else {
            return bits;
        };
        let (apart, escaped) = (bits & self.apart.of(last), bits & before.of(last));
        if apart != escaped && validators::ends_escape(view.before(at)) {
            escaped
        } else {
            apart
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{DETECTORS, Mask, Style};

    fn mask(patterns: usize) -> Mask {
        let names: Vec<&str> = DETECTORS.iter().map(|detector| detector.name).collect();
        let patterns: Vec<(String, String)> = (0..patterns)
            .map(|number| {
                (
                    format!("p{number}"),
                    format!("[{number}c]é?b{{0,2}}{}", number % 7),
                )
            })
            .collect();
        let patterns: Vec<(&str, &str)> = patterns
            .iter()
            .map(|(name, pattern)| (name.as_str(), pattern.as_str()))
            .collect();
        Mask::new(&names, &patterns, &Style::Label).unwrap()
    }

    /// Reference implementation: reads the tables at every offset.
    fn one_by_one(
        gate: &FirstByteTable,
        view: MaskWindow<'_>,
        range: Range<usize>,
        wanted: Bits,
    ) -> Vec<(usize, Bits)> {
        let hits = range.map(|at| (at, gate.at(view, at) & wanted));
        hits.filter(|(_, bits)| *bits != 0).collect()
    }

    #[test]
    fn the_prefilter_skips_no_candidate() {
        let masks = [0, 3, 20, 70].map(mask);
        proptest!(|(
            text in "([a-e0-6é@:/. -]|sk-|AKIA|eyJ|://|-----BEGIN|12[-]34){0,40}",
            base in prop_oneof![Just(0_usize), 1..100_usize],
            cut in any::<(prop::sample::Index, prop::sample::Index)>(),
            wanted in prop_oneof![Just(ALL), any::<Bits>()],
            mask in 0..masks.len(),
        )| {
            let gate = &masks[mask].rules.first_bytes;
            let view = MaskWindow::new(&text, base, true);
            let (a, b) = (cut.0.index(text.len() + 1), cut.1.index(text.len() + 1));
            let range = base + a.min(b)..base + a.max(b);
            let mut found = Vec::new();
            let mut rest = range.clone();
            while let Some((at, hits)) = gate.next(view, rest.clone(), wanted) {
                found.push((at, hits));
                rest.start = at + 1;
            }
            prop_assert_eq!(found, one_by_one(gate, view, range, wanted));
        });
    }
}
