//! What goes on over a reload: the transports of hooks that are defined as
//! before, with the processes that they have.

use std::{path::PathBuf, sync::Arc};

use super::{Hook, HookTable};
use crate::{
    config::{HookSettings, HookSpec},
    event::EventName,
    transport::{Transport, TransportDeps},
};

/// All that a transport was built from.
#[derive(Debug, PartialEq)]
pub(super) struct Definition {
    event: EventName,
    label: String,
    kind: String,
    protocol: String,
    settings: HookSettings,
    directory: PathBuf,
    output_limit: usize,
}

impl Definition {
    pub(super) fn new(event: EventName, spec: &HookSpec, toolbox: &TransportDeps) -> Self {
        Self {
            event,
            label: spec.label().to_owned(),
            kind: spec.kind.clone(),
            protocol: spec.protocol.clone(),
            settings: spec.settings.clone(),
            directory: toolbox.directory.clone(),
            output_limit: toolbox.output_limit,
        }
    }
}

/// The hooks of the table before, as long as nobody has taken over their
/// transport.
pub(super) struct Before<'a>(Vec<&'a Arc<Hook>>);

impl<'a> Before<'a> {
    pub(super) fn new(table: Option<&'a HookTable>) -> Self {
        let hooks = table.iter().flat_map(|it| it.hooks());
        Self(hooks.map(|(_, hook)| hook).collect())
    }

    /// The transport of a hook that was defined in the same way. It goes to one
    /// hook only: what two hooks have apart stays apart.
    pub(super) fn take_over(&mut self, definition: &Definition) -> Option<Arc<dyn Transport>> {
        let same = |it: &&Arc<Hook>| it.definition == *definition;
        let at = self.0.iter().position(same)?;
        Some(Arc::clone(&self.0.remove(at).transport))
    }
}
