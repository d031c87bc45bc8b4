//! Requests in flight: those whose recorder is not dropped yet.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, MutexGuard, Weak},
};

use super::exchange_summary::ExchangeSummary;
use crate::mutex::Mutex;

/// Requests in flight. Each is read where it is recorded, so nothing is copied for a list that
/// no operator looks at.
#[derive(Debug, Default)]
pub struct InFlightExchanges(Mutex<InFlightTable>);

#[derive(Debug, Default)]
struct InFlightTable {
    /// Number of the next request.
    next: u64,
    /// By number, so the oldest is first.
    exchanges: BTreeMap<u64, Weak<dyn InFlightExchange>>,
}

/// A request that is being recorded.
pub(super) trait InFlightExchange: fmt::Debug + Send + Sync {
    /// Reads the summary so far.
    fn read(&self, reader: &mut dyn FnMut(&ExchangeSummary));
}

/// Place of a request in [`InFlightExchanges`], which ends with it.
#[derive(Debug)]
pub(super) struct InFlightEntry {
    table: Arc<InFlightExchanges>,
    number: u64,
}

impl InFlightExchanges {
    /// Number of bytes that are used for each request.
    pub const ENTRY_BYTES: usize = size_of::<(u64, Weak<dyn InFlightExchange>)>() * 2;

    /// Returns the number of requests in flight, without those that are just ending.
    pub fn count(&self) -> usize {
        let table = self.table();
        let exchanges = table.exchanges.values();
        exchanges
            .filter(|exchange| exchange.strong_count() > 0)
            .count()
    }

    /// Calls `reader` with the requests in flight, the oldest first, until it returns `false`.
    pub fn read(&self, mut reader: impl FnMut(&ExchangeSummary) -> bool) {
        let (mut from, mut continues) = (0, true);
        while continues {
            // The table is not locked while a request is read: the last one who has it ends it.
            let Some((number, exchange)) = self.first_from(from) else {
                return;
            };
            exchange.read(&mut |summary| continues = reader(summary));
            from = number + 1;
        }
    }

    pub(super) fn add(self: &Arc<Self>, exchange: Weak<dyn InFlightExchange>) -> InFlightEntry {
        let mut table = self.table();
        let number = table.next;
        table.next += 1;
        table.exchanges.insert(number, exchange);
        drop(table);
        InFlightEntry {
            table: Arc::clone(self),
            number,
        }
    }

    fn first_from(&self, number: u64) -> Option<(u64, Arc<dyn InFlightExchange>)> {
        let table = self.table();
        let mut exchanges = table.exchanges.range(number..);
        exchanges.find_map(|(number, exchange)| Some((*number, exchange.upgrade()?)))
    }

    fn table(&self) -> MutexGuard<'_, InFlightTable> {
        self.0.lock()
    }
}

impl Drop for InFlightEntry {
    fn drop(&mut self) {
        self.table.table().exchanges.remove(&self.number);
    }
}
