//! Metric series that were counted before, found without hashing their labels.

use std::sync::{PoisonError, RwLock};

/// Series that are kept of one metric. Others are found by their labels.
const MAX_SERIES: usize = 64;

/// Series that were counted before, by what their labels are made of.
pub(super) struct KeptSeries<K, S>(RwLock<Vec<(K, S)>>);

impl<K, S> Default for KeptSeries<K, S> {
    fn default() -> Self {
        Self(RwLock::default())
    }
}

impl<K, S: Clone> KeptSeries<K, S> {
    /// Returns the series whose key matches. `find` returns it by its labels, with its key.
    pub(super) fn get(&self, is_key: impl Fn(&K) -> bool, find: impl FnOnce() -> (K, S)) -> S {
        let kept = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, series)) = kept.iter().find(|(key, _)| is_key(key)) {
            return series.clone();
        }
        drop(kept);
        let (key, series) = find();
        let mut kept = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < MAX_SERIES {
            kept.push((key, series.clone()));
        }
        series
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_is_found_by_its_labels_once() {
        let kept = KeptSeries::default();
        let get = |key: usize| kept.get(|known| *known == key, || (key, vec![key]));

        assert_eq!((get(1), get(2)), (vec![1], vec![2]));

        let is_kept = |key: usize| kept.get(|known| *known == key, || (key, Vec::new()));
        assert_eq!((is_kept(1), is_kept(2)), (vec![1], vec![2]));
    }

    #[test]
    fn series_beyond_the_bound_are_found_by_their_labels_each_time() {
        let kept = KeptSeries::default();
        for key in 0..2 * MAX_SERIES {
            kept.get(|known| *known == key, || (key, key));
        }

        assert_eq!(kept.0.read().unwrap().len(), MAX_SERIES);
        let beyond = kept.get(|known| *known == MAX_SERIES, || (MAX_SERIES, 7));
        assert_eq!(beyond, 7);
    }
}
