//! The exchanges of a shadow that is not built yet.

use std::sync::Arc;

use tokio::sync::mpsc::{self, error::TrySendError};

use crate::{
    config::{RecordSelection, ShadowSettings},
    recording::{CollectedExchange, ExchangeCollector},
    state::App,
};

/// Exchanges that are collected for a shadow before it is built.
pub struct Collection {
    pub settings: ShadowSettings,
    pub collector: Arc<ExchangeCollector>,
    pub queue: mpsc::Receiver<Box<CollectedExchange>>,
    /// Exchanges that earlier shadows dropped.
    pub dropped_before: u64,
}

impl Collection {
    /// Collects the exchanges that begin from now on, instead of another shadow.
    pub fn start(app: &App, settings: ShadowSettings) -> Self {
        let metrics = &app.resources.metrics;
        let dropped_before = metrics.shadow_dropped.get();
        let (sender, queue) = mpsc::channel(settings.budget.queue);
        let send = move |exchange| !matches!(sender.try_send(exchange), Err(TrySendError::Full(_)));
        let what = RecordSelection {
            sample: settings.sample,
            ..RecordSelection::default()
        };
        let (memory, dropped) = (settings.budget.memory, metrics.shadow_dropped.clone());
        let collector = ExchangeCollector::new(what, memory, Box::new(send), dropped);
        let collector = Arc::new(collector);
        let slot = &app.resources.shadow;
        slot.set_collector(Some(Arc::clone(&collector)));
        Self {
            settings,
            collector,
            queue,
            dropped_before,
        }
    }
}
