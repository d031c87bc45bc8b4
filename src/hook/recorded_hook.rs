//! Hooks in a replay: their outputs are recorded, and nothing is called.

use std::{future::ready, sync::Arc};

use futures_util::future::BoxFuture;

use crate::{
    event::HookResult,
    recording::input_hash,
    transport::{HookCall, RecordedRuns, RunKey, Transport, TransportError},
};

/// Transport of a hook in a replay.
#[derive(Debug)]
pub(super) struct RecordedHook {
    pub(super) name: String,
    /// Hash of the definition in the config.
    pub(super) definition: String,
    pub(super) runs: Arc<RecordedRuns>,
}

impl Transport for RecordedHook {
    fn call<'a>(&'a self, call: HookCall<'a>) -> BoxFuture<'a, Result<HookResult, TransportError>> {
        let key = RunKey {
            definition: self.definition.clone(),
            input: input_hash(&call.input),
        };
        let request_id = &call.context.request_id;
        Box::pin(ready(Ok(self.runs.take(request_id, &self.name, &key))))
    }

    fn is_recorded(&self) -> bool {
        true
    }
}
