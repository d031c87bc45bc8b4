//! Recorded outputs of hooks, which a replay gives instead of calls.

use std::collections::{BTreeSet, HashMap, VecDeque};

use crate::{event::HookResult, mutex::Mutex};

/// Definition and input of a hook's run, as SHA-256 in hex.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RunKey {
    /// Hash of the definition in the config.
    pub definition: String,
    /// Hash of the input.
    pub input: String,
}

/// Recorded outputs of hooks, by request id.
#[derive(Debug, Default)]
pub struct RecordedRuns(Mutex<HashMap<String, RequestRuns>>);

/// Recorded outputs of the hooks of one request, and the hooks that have none.
#[derive(Debug, Default)]
pub struct RequestRuns {
    /// Results in the order of the runs.
    pub results: HashMap<RunKey, VecDeque<HookResult>>,
    /// Names of hooks that ran and have no recorded output.
    pub unanswered: BTreeSet<String>,
}

impl RecordedRuns {
    /// Sets the outputs for a request.
    pub fn insert(&self, request_id: &str, runs: RequestRuns) {
        self.0.lock().insert(request_id.to_owned(), runs);
    }

    /// Removes the outputs for a request.
    pub fn remove(&self, request_id: &str) -> RequestRuns {
        self.0.lock().remove(request_id).unwrap_or_default()
    }

    /// Takes the output of a hook. Without one the hook is noted as unanswered, and has none.
    pub fn take(&self, request_id: &str, hook: &str, key: &RunKey) -> HookResult {
        let mut requests = self.0.lock();
        let runs = requests.entry(request_id.to_owned()).or_default();
        let result = runs.results.get_mut(key).and_then(VecDeque::pop_front);
        result.unwrap_or_else(|| {
            runs.unanswered.insert(hook.to_owned());
            HookResult::default()
        })
    }
}
