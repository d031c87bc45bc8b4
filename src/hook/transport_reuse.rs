//! Reuse of transports at a reload. A hook whose transport is defined as before
//! keeps it, with its processes.

use std::{path::PathBuf, sync::Arc};

use crate::{
    config::{HookSettings, HookSpec},
    event::EventName,
    transport::{Transport, TransportDeps},
};

/// Everything that a transport is built from.
#[derive(Debug, PartialEq)]
pub(super) struct TransportDefinition {
    event: EventName,
    label: String,
    kind: String,
    protocol: String,
    settings: HookSettings,
    directory: PathBuf,
    output_limit: usize,
}

impl TransportDefinition {
    pub(super) fn new(event: EventName, spec: &HookSpec, deps: &TransportDeps) -> Self {
        Self {
            event,
            label: spec.label().to_owned(),
            kind: spec.kind.clone(),
            protocol: spec.protocol.clone(),
            settings: spec.settings.clone(),
            directory: deps.directory.clone(),
            output_limit: deps.output_limit,
        }
    }
}

/// The transports of the previous table that are not reused yet.
#[derive(Default)]
pub(super) struct PreviousTransports<'a>(Vec<(&'a TransportDefinition, &'a Arc<dyn Transport>)>);

impl<'a> PreviousTransports<'a> {
    pub(super) fn push(
        &mut self,
        definition: &'a TransportDefinition,
        transport: &'a Arc<dyn Transport>,
    ) {
        self.0.push((definition, transport));
    }

    /// Returns a transport with the same definition, for one hook only: hooks never
    /// share a transport.
    pub(super) fn take(&mut self, definition: &TransportDefinition) -> Option<Arc<dyn Transport>> {
        let same = |(previous, _): &(&TransportDefinition, _)| *previous == definition;
        let index = self.0.iter().position(same)?;
        Some(Arc::clone(self.0.remove(index).1))
    }
}
