//! Result of the last request for each bundle.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::mutex::Mutex;

/// Results of the last requests for bundles, by name.
#[derive(Debug, Default)]
pub struct BundleStatuses(Mutex<BTreeMap<String, BundleStatus>>);

/// Result of the last request for a bundle.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BundleStatus {
    /// Time of the last response.
    pub checked: Option<Timestamp>,
    /// Reason why there is no response.
    pub fetch_error: Option<String>,
    /// Reason why the bundle of the server is not in use.
    pub refused: Option<String>,
}

impl BundleStatus {
    /// Returns the reason why the bundle in use may not be that of the server.
    pub fn error(&self) -> Option<&str> {
        self.fetch_error.as_deref().or(self.refused.as_deref())
    }
}

impl BundleStatuses {
    /// Records a response. Logs the end of failures.
    pub fn record_response(&self, name: &str) {
        let mut statuses = self.0.lock();
        let status = statuses.entry(name.to_owned()).or_default();
        status.checked = Some(Timestamp::now());
        if status.fetch_error.take().is_some() {
            tracing::info!(bundle = name, "bundle fetch recovered");
        }
    }

    /// Records that there is no response. Logs each reason once.
    pub fn record_failure(&self, name: &str, error: String) {
        let mut statuses = self.0.lock();
        let status = statuses.entry(name.to_owned()).or_default();
        if status.fetch_error.as_ref() != Some(&error) {
            tracing::warn!(bundle = name, error, "bundle fetch failed");
        }
        status.fetch_error = Some(error);
    }

    /// Records whether the bundle of the server is in use. Logs each reason once.
    pub fn record_offer(&self, name: &str, refused: Option<String>) {
        let mut statuses = self.0.lock();
        let status = statuses.entry(name.to_owned()).or_default();
        if let Some(error) = refused.as_ref().filter(|_| status.refused != refused) {
            tracing::warn!(
                bundle = name,
                error,
                "bundle refused; the last one stays in use"
            );
        }
        status.refused = refused;
    }

    /// Returns the result of the last request for a bundle.
    pub fn get(&self, name: &str) -> BundleStatus {
        self.0.lock().get(name).cloned().unwrap_or_default()
    }

    /// Returns the names of the bundles in use that may not be those of the server.
    pub fn outdated(&self) -> Vec<String> {
        let statuses = self.0.lock();
        let outdated = statuses
            .iter()
            .filter(|(_, status)| status.error().is_some());
        outdated.map(|(name, _)| name.clone()).collect()
    }
}
