//! The place of the shadow in the gateway: the collector of its exchanges, and requests of
//! operators to its task.

use std::{sync::Arc, time::Duration};

use serde::Serialize;
use serde_json::Value;
use thiserror::Error;
use tokio::sync::{Notify, mpsc, oneshot};
use utoipa::ToSchema;

use crate::{config::ShadowSettings, mutex::Mutex, recording::ExchangeCollector};

/// Requests that wait for the task.
const MAX_REQUESTS: usize = 16;

/// Time for the task to reply, which includes the load of a config.
const REPLY_TIMEOUT: Duration = Duration::from_secs(50);

/// The place of the shadow in the gateway.
#[derive(Debug)]
pub struct ShadowSlot {
    collector: Mutex<Option<Arc<ExchangeCollector>>>,
    config_changed: Notify,
    requests: mpsc::Sender<ShadowRequest>,
    /// The end of `requests`, until the task is started.
    unstarted: Mutex<Option<mpsc::Receiver<ShadowRequest>>>,
}

/// A request of an operator to the task of the shadow.
#[derive(Debug)]
pub struct ShadowRequest {
    /// Kind of the request.
    pub action: ShadowAction,
    /// Sender of the shadow's state after the request, or of its error.
    pub reply: oneshot::Sender<Result<ShadowStatus, ShadowError>>,
}

/// Kind of a request of an operator.
#[derive(Debug)]
pub enum ShadowAction {
    /// Starts a shadow, and ends the one before.
    Start {
        /// Text of the config.
        config: String,
        /// Settings of the shadow; their path is empty.
        settings: Box<ShadowSettings>,
        /// Name of the operator.
        by: Arc<str>,
    },
    /// Ends the shadow that is running, if there is one.
    End {
        /// Name of the operator.
        by: Arc<str>,
    },
    /// Only reads the state.
    Status,
}

/// Reason why a request has no effect.
#[derive(Debug, Clone, Error)]
pub enum ShadowError {
    /// The config has problems, or a gateway cannot be built of it.
    #[error("{0}")]
    Config(String),
    /// The task has ended, or does not reply in time.
    #[error("the shadow is not available")]
    Unavailable,
}

/// The state of the shadow.
#[derive(Debug, Clone, Default, Serialize, ToSchema)]
pub struct ShadowStatus {
    /// State: `none`, `running` or `ended`.
    pub state: &'static str,
    /// Version of the config in use during the shadow.
    pub from: String,
    /// Version of the shadow's config; empty if it cannot be loaded.
    pub to: String,
    /// Share of the sessions.
    pub sample: f64,
    /// Time of the start: RFC 3339 in UTC.
    pub started: String,
    /// Time at which it ends at the latest, or has ended.
    pub until: String,
    /// True if an operator started it in the place of the shadow of the config in use, which the
    /// first reload after its end starts again.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub replaces_config: bool,
    /// Reason of the end: `until`, `operator`, `reload`, `shutdown`, `panic`, `deadline` or
    /// `failed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'static str>,
    /// Details of an end with the reason `failed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Bytes of exchanges that are collected, wait or are evaluated.
    pub held_bytes: usize,
    /// Exchanges that were dropped, because the queue or the memory was full.
    pub dropped: u64,
    /// Report of the evaluated exchanges, as `hookgate replay --format json` prints it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub report: Option<Value>,
}

impl ShadowStatus {
    /// The state without a shadow.
    pub fn none() -> Self {
        Self {
            state: "none",
            ..Self::default()
        }
    }
}

impl Default for ShadowSlot {
    fn default() -> Self {
        let (requests, receiver) = mpsc::channel(MAX_REQUESTS);
        Self {
            collector: Mutex::default(),
            config_changed: Notify::new(),
            requests,
            unstarted: Mutex::new(Some(receiver)),
        }
    }
}

impl ShadowSlot {
    /// Returns the collector of the shadow that is running.
    pub fn collector(&self) -> Option<Arc<ExchangeCollector>> {
        self.collector.lock().clone()
    }

    /// Sets the collector of the exchanges that begin from now on.
    pub fn set_collector(&self, collector: Option<Arc<ExchangeCollector>>) {
        *self.collector.lock() = collector;
    }

    /// Wakes the task because another config is in use.
    pub fn notify_config_change(&self) {
        self.config_changed.notify_one();
    }

    /// Waits until another config is in use. Dropping the future loses no change.
    pub async fn config_changed(&self) {
        self.config_changed.notified().await;
    }

    /// Takes the requests of operators; `None` if another task has them.
    pub fn take_requests(&self) -> Option<mpsc::Receiver<ShadowRequest>> {
        self.unstarted.lock().take()
    }

    /// Sends a request to the task, and returns the state after it.
    ///
    /// # Errors
    ///
    /// Returns the reason why it has no effect.
    pub async fn request(&self, action: ShadowAction) -> Result<ShadowStatus, ShadowError> {
        let (reply, replied) = oneshot::channel();
        let exchanged = async {
            let request = ShadowRequest { action, reply };
            self.requests.send(request).await.ok()?;
            replied.await.ok()
        };
        let replied = tokio::time::timeout(REPLY_TIMEOUT, exchanged).await;
        let replied = replied.ok().flatten();
        replied.unwrap_or(Err(ShadowError::Unavailable))
    }
}
