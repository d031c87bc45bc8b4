//! Requests under way.

use std::sync::Arc;

use prometheus_client::metrics::gauge::Gauge;

/// Counts a request as long as it, or what it left to be done, lives.
#[derive(Debug, Clone)]
pub struct UnderWay(#[expect(dead_code, reason = "it is there to be dropped")] Arc<Counted>);

#[derive(Debug)]
struct Counted(Gauge);

impl UnderWay {
    /// Counts one more, unless there are `limit` already.
    pub fn begin(gauge: &Gauge, limit: usize) -> Option<Self> {
        let counted = Counted(gauge.clone());
        let before = gauge.inc();
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        (before < limit).then(|| Self(Arc::new(counted)))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.dec();
    }
}
