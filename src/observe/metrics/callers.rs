//! What is counted of callers.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    caller: String,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TokenLabels {
    caller: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StrangerLabels {
    why: &'static str,
}

/// What is counted of callers. Those that the config does not name are called
/// `other`, so that nobody outside makes labels.
#[derive(Debug, Default)]
pub struct CallerMetrics {
    requests: Family<RequestLabels, Counter>,
    tokens: Family<TokenLabels, Counter>,
    strangers: Family<StrangerLabels, Counter>,
}

impl CallerMetrics {
    /// Counts a request of a known caller.
    pub fn request(&self, caller: &str, outcome: &'static str) {
        let caller = caller.to_owned();
        let labels = RequestLabels { caller, outcome };
        self.requests.get_or_create(&labels).inc();
    }

    /// Counts what an answer cost.
    pub fn tokens(&self, caller: &str, tokens: u64) {
        let caller = caller.to_owned();
        self.tokens
            .get_or_create(&TokenLabels { caller })
            .inc_by(tokens);
    }

    /// Counts a request whose caller nobody knows.
    pub fn stranger(&self, why: &'static str) {
        self.strangers.get_or_create(&StrangerLabels { why }).inc();
    }

    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "caller_requests",
            "Requests of known callers, by caller and whether they were taken",
            self.requests.clone(),
        );
        registry.register(
            "caller_tokens",
            "Tokens of callers that have a number of them per day",
            self.tokens.clone(),
        );
        registry.register(
            "strangers",
            "Requests refused because nobody knows who calls",
            self.strangers.clone(),
        );
    }
}
