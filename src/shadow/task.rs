//! The task that starts and ends shadows: at the start, after reloads, and for operators.

use std::{future::pending, sync::Arc, time::Duration};

use futures_util::future::OptionFuture;
use jiff::Timestamp;
use tokio::{
    sync::mpsc,
    task::spawn_blocking,
    time::{Instant, sleep, sleep_until, timeout},
};

use super::{
    collection::Collection,
    worker::{EXCHANGE_TIMEOUT, EndReason, Worker, WorkerPlan},
};
use crate::{
    audit_log::{AuditRecord, ShadowChange, ShadowEnd, ShadowRecord},
    config::{Config, ShadowSettings},
    recording::ExchangeCollector,
    replay::ReplayReport,
    state::{App, ConfigInput, ShadowAction, ShadowError, ShadowRequest, ShadowStatus},
};

/// Time between two looks at a thread, which may not yield.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Time for a thread to end, beyond which it is given up.
const END_TIMEOUT: Duration = Duration::from_secs(3);

/// Starts and ends shadows until the shutdown. Exchanges are collected for the shadow of the config
/// in use from this call on, before the future is polled.
pub fn run_shadow(app: App) -> impl Future<Output = ()> + Send {
    let requests = app.resources.shadow.take_requests();
    let settings = app.snapshot().config.shadow.clone();
    let settings = settings.filter(|_| requests.is_some());
    let collection = settings.map(|settings| Collection::start(&app, settings));
    async move {
        if let Some(requests) = requests {
            run(app, requests, collection).await;
        }
    }
}

async fn run(
    app: App,
    mut requests: mpsc::Receiver<ShadowRequest>,
    collection: Option<Collection>,
) {
    let shutdown = app.resources.shutdown.clone();
    let mut task = ShadowTask {
        app,
        collection,
        running: None,
        status: ShadowStatus::none(),
        followed: None,
        is_restart_due: false,
    };
    let slot = Arc::clone(&task.app.resources.shadow);
    let followed = async {
        Box::pin(task.follow_config()).await;
        loop {
            tokio::select! {
                () = slot.config_changed() => Box::pin(task.follow_config()).await,
                Some(request) = requests.recv() => task.reply(request).await,
                reason = ended(task.running.as_mut()) => task.end(reason, "").await,
            }
        }
    };
    shutdown.run_until_cancelled(Box::pin(followed)).await;
    task.end(EndReason::Shutdown, "").await;
}

struct ShadowTask {
    app: App,
    /// The exchanges of a shadow that is not started yet.
    collection: Option<Collection>,
    running: Option<RunningShadow>,
    /// The state at the last start or end.
    status: ShadowStatus,
    /// Versions of the config in use and of the shadow's config in the file, when they were last
    /// compared with those before.
    followed: Option<(String, String)>,
    /// True if the next reload starts the shadow of the config again, because that of an operator
    /// was in its place and has ended.
    is_restart_due: bool,
}

struct RunningShadow {
    worker: Worker,
    collector: Arc<ExchangeCollector>,
    record: ShadowRecord,
    /// Its last moment, if there is one.
    until: Option<Instant>,
    /// Exchanges that earlier shadows dropped.
    dropped_before: u64,
}

impl ShadowTask {
    /// Starts the shadow of the config in use, and ends that of another config. Does nothing if
    /// neither the config nor that of the shadow has changed.
    async fn follow_config(&mut self) {
        let config = Arc::clone(&self.app.snapshot().config);
        let settings = config.shadow.clone();
        let candidate = match &settings {
            Some(settings) => {
                let (app, path) = (self.app.clone(), settings.config.clone());
                Some(read(move || app.read_other(ConfigInput::Other(&path))).await)
            }
            None => None,
        };
        let version = candidate.as_ref().map(|candidate| match candidate {
            Ok(candidate) => candidate.version.clone(),
            Err(error) => error.clone(),
        });
        let followed = (config.version.clone(), version.unwrap_or_default());
        if self.followed.as_ref() == Some(&followed) && !self.is_restart_due {
            return;
        }
        self.end(EndReason::Reload, "").await;
        (self.followed, self.is_restart_due) = (Some(followed), false);
        if self.status.error.is_some() {
            self.status = ShadowStatus::none();
        }
        if let (Some(settings), Some(candidate)) = (settings, candidate) {
            let started = match candidate {
                Ok(candidate) => self.start(candidate, settings, "").await,
                Err(error) => Err(error),
            };
            if let Err(error) = started {
                self.fail(error);
            }
        }
        if self.collection.take().is_some() {
            self.app.resources.shadow.set_collector(None);
        }
    }

    async fn reply(&mut self, request: ShadowRequest) {
        let reply = match request.action {
            ShadowAction::Start {
                config,
                settings,
                by,
            } => Box::pin(self.start_posted(config, *settings, &by)).await,
            ShadowAction::End { by } => {
                self.end(EndReason::Operator, &by).await;
                Ok(())
            }
            ShadowAction::Status => Ok(()),
        };
        let reply = reply.map_err(ShadowError::Config);
        // The operator may have disconnected.
        request.reply.send(reply.map(|()| self.status())).ok();
    }

    /// Starts the shadow of an operator, in the place of that before.
    async fn start_posted(
        &mut self,
        text: String,
        settings: ShadowSettings,
        by: &str,
    ) -> Result<(), String> {
        let app = self.app.clone();
        let mut config = read(move || app.read_other(ConfigInput::Posted(text))).await?;
        // INVARIANT: requests choose nothing that is executed.
        config.remove_shadow_hooks();
        let running = self.running.as_ref();
        let replaces_config = running.is_some_and(|running| running.record.by.is_empty());
        self.end(EndReason::Operator, by).await;
        self.is_restart_due |= replaces_config;
        self.start(config, settings, by).await?;
        self.is_restart_due = false;
        Ok(())
    }

    async fn start(
        &mut self,
        config: Config,
        settings: ShadowSettings,
        by: &str,
    ) -> Result<(), String> {
        let metrics = Arc::clone(&self.app.resources.metrics);
        // Configs of shadows before had other names.
        metrics.shadow_verdicts.clear();
        let collection = self.collection.take();
        let collection = collection.filter(|collection| collection.settings == settings);
        let collection = collection.unwrap_or_else(|| Collection::start(&self.app, settings));
        let record = ShadowRecord {
            action: ShadowChange::Start,
            from: self.app.snapshot().config.version.clone(),
            to: config.version.clone(),
            sample: collection.settings.sample,
            by: by.to_owned(),
            end: None,
        };
        let (started, time) = (Timestamp::now(), collection.settings.until);
        let status = ShadowStatus {
            state: "running",
            from: record.from.clone(),
            to: record.to.clone(),
            sample: record.sample,
            replaces_config: self.is_restart_due,
            started: rfc3339_seconds(started),
            until: rfc3339_seconds(started.checked_add(time).unwrap_or(Timestamp::MAX)),
            ..ShadowStatus::default()
        };
        let timeouts = self.app.snapshot().config.timeouts;
        let dropped_before = collection.dropped_before;
        let collector = Arc::clone(&collection.collector);
        let plan = WorkerPlan {
            config,
            collection,
            // A call of which nothing is read for so long has ended.
            lost_after: timeouts.first_byte + timeouts.stream_idle,
            metrics: Arc::clone(&metrics),
        };
        let slot = &self.app.resources.shadow;
        let worker = Worker::start(plan).await;
        let worker = worker.inspect_err(|_| slot.set_collector(None))?;
        let running = RunningShadow {
            dropped_before,
            worker,
            until: Instant::now().checked_add(time),
            collector,
            record,
        };
        let (from, to) = (&running.record.from, &running.record.to);
        tracing::info!(config.from = from, config.to = to, "shadow started");
        self.append(&running.record);
        metrics.shadow_running.set(1);
        (self.status, self.running) = (status, Some(running));
        Ok(())
    }

    /// Ends the shadow that is running, if there is one, for an operator if `by` is not empty. If
    /// the future is dropped, it is not ended yet.
    async fn end(&mut self, reason: EndReason, by: &str) {
        if let Some(running) = &mut self.running {
            self.app.resources.shadow.set_collector(None);
            running.worker.cancel.cancel();
            if !matches!(reason, EndReason::Panic | EndReason::Failed) {
                // A thread that does not end in time is given up.
                let ended = &mut running.worker.ended;
                timeout(END_TIMEOUT, ended).await.ok();
            }
        }
        if let Some(running) = self.running.take() {
            self.record_end(running, reason, by);
        }
    }

    fn record_end(&mut self, running: RunningShadow, reason: EndReason, by: &str) {
        let metrics = &self.app.resources.metrics;
        metrics.shadow_running.set(0);
        metrics.shadow_ends.with([reason.as_str().into()]).inc();
        let status = ShadowStatus {
            state: "ended",
            reason: Some(reason.as_str()),
            until: rfc3339_seconds(Timestamp::now()),
            ..self.status_of(&running)
        };
        let counts = running.worker.replayer.report().counts;
        let end = ShadowEnd {
            reason: reason.as_str(),
            calls: counts.calls,
            newly_denied: counts.newly_denied,
            newly_allowed: counts.newly_allowed,
            edited: counts.edited,
            unchanged: counts.unchanged,
            unknown: counts.unknown,
            stale: counts.stale,
            dropped: status.dropped,
        };
        log_end(&running.record, reason, counts.calls);
        self.is_restart_due |= status.replaces_config;
        self.append(&ShadowRecord {
            action: ShadowChange::End,
            by: by.to_owned(),
            end: Some(end),
            ..running.record
        });
        self.status = status;
    }

    /// Records that a shadow cannot be started.
    fn fail(&mut self, error: String) {
        tracing::warn!(%error, "the shadow cannot be started");
        let reason = EndReason::Failed.as_str();
        let metrics = &self.app.resources.metrics;
        metrics.shadow_ends.with([reason.into()]).inc();
        self.status = ShadowStatus {
            state: "ended",
            from: self.app.snapshot().config.version.clone(),
            reason: Some(reason),
            error: Some(error),
            ..ShadowStatus::default()
        };
    }

    fn append(&self, record: &ShadowRecord) {
        if let Some(audit) = &self.app.snapshot().audit {
            audit.append(&AuditRecord::Shadow(record.clone()));
        }
    }

    fn status(&self) -> ShadowStatus {
        match &self.running {
            Some(running) => self.status_of(running),
            None => self.status.clone(),
        }
    }

    fn status_of(&self, running: &RunningShadow) -> ShadowStatus {
        let dropped = self.app.resources.metrics.shadow_dropped.get();
        let report = ReplayReport {
            before: ReplayReport::LIVE.to_owned(),
            ..running.worker.replayer.report()
        };
        ShadowStatus {
            held_bytes: running.collector.held_bytes(),
            dropped: dropped - running.dropped_before,
            report: serde_json::to_value(report).ok(),
            ..self.status.clone()
        }
    }
}

fn log_end(record: &ShadowRecord, reason: EndReason, calls: u64) {
    let (from, to) = (&record.from, &record.to);
    let (is_failure, reason) = (reason.is_failure(), reason.as_str());
    if is_failure {
        tracing::warn!(
            config.from = from,
            config.to = to,
            shadow.reason = reason,
            shadow.calls = calls,
            "shadow ended early"
        );
    } else {
        tracing::info!(
            config.from = from,
            config.to = to,
            shadow.reason = reason,
            shadow.calls = calls,
            "shadow ended"
        );
    }
}

fn rfc3339_seconds(time: Timestamp) -> String {
    format!("{time:.0}")
}

/// Reads a config on a thread for blocking tasks.
async fn read<E: ToString + Send + 'static>(
    read: impl FnOnce() -> Result<Config, E> + Send + 'static,
) -> Result<Config, String> {
    match spawn_blocking(read).await {
        Ok(config) => config.map_err(|error| error.to_string()),
        Err(panicked) => Err(panicked.to_string()),
    }
}

/// Waits until a shadow has to end.
async fn ended(running: Option<&mut RunningShadow>) -> EndReason {
    let Some(running) = running else {
        return pending().await;
    };
    let (worker, until) = (&mut running.worker, running.until);
    loop {
        tokio::select! {
            end = &mut worker.ended => return end.unwrap_or(EndReason::Panic),
            Some(()) = OptionFuture::from(until.map(sleep_until)) => return EndReason::Until,
            () = sleep(CHECK_INTERVAL) => {
                if worker.activity.busy() > EXCHANGE_TIMEOUT {
                    return EndReason::Deadline;
                }
            }
        }
    }
}
