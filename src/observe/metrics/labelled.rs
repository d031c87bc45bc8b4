//! Metrics whose series differ in the values of their labels.

use std::{borrow::Cow, fmt};

use prometheus_client::{
    encoding::{EncodeMetric, MetricEncoder},
    metrics::{
        MetricType,
        family::Family,
        histogram::{Histogram, exponential_buckets},
    },
};

/// Names and values of the labels of a series.
type Labels<const N: usize> = [(&'static str, Cow<'static, str>); N];

/// A metric with the names of its labels.
#[derive(Debug, Clone)]
pub struct Labelled<M, const N: usize> {
    names: [&'static str; N],
    family: Family<Labels<N>, M>,
}

impl<M: Default, const N: usize> Labelled<M, N> {
    pub(super) fn new(names: [&'static str; N]) -> Self {
        let family = Family::default();
        Self { names, family }
    }
}

impl<const N: usize> Labelled<Histogram, N> {
    /// Creates histograms with buckets from 1 ms to about 4 minutes.
    pub(super) fn durations(names: [&'static str; N]) -> Self {
        let histogram = || Histogram::new(exponential_buckets(0.001, 4.0, 10));
        Self {
            names,
            family: Family::new_with_constructor(histogram),
        }
    }
}

impl<M: Clone, const N: usize> Labelled<M, N> {
    /// Returns the series with these values of the labels. It is created at 0.
    pub fn with(&self, values: [Cow<'static, str>; N]) -> M {
        let mut values = values.into_iter();
        let label = |name| (name, values.next().unwrap_or_default());
        self.family.get_or_create_owned(&self.names.map(label))
    }

    /// Removes the series of all values.
    pub fn clear(&self) {
        self.family.clear();
    }
}

impl<M, const N: usize> EncodeMetric for Labelled<M, N>
where
    Family<Labels<N>, M>: EncodeMetric,
{
    fn encode(&self, encoder: MetricEncoder<'_>) -> Result<(), fmt::Error> {
        self.family.encode(encoder)
    }

    fn metric_type(&self) -> MetricType {
        self.family.metric_type()
    }

    fn is_empty(&self) -> bool {
        EncodeMetric::is_empty(&self.family)
    }
}
