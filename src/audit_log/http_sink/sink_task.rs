//! The task that reads the log and sends its lines until they are accepted.

use std::{
    io::{self, ErrorKind},
    ops::ControlFlow::{self, Break, Continue},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use chained_log::{BatchLimits, LineBatch, PlacedLine, ReadPosition, read_batch};
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    endpoint::{SendError, SinkEndpoint, UnsentLines},
    progress,
};
use crate::{
    backoff::Backoff,
    observe::{AUDIT_SINK, Metrics},
};

/// Maximum time for which the first line of a batch waits for further lines.
const LINGER_TIMEOUT: Duration = Duration::from_secs(1);

const MIN_BACKOFF: Duration = Duration::from_millis(500);
const MAX_BACKOFF: Duration = Duration::from_secs(30);

/// Time to send what is written once the log is closed and the server shuts down. What is left
/// is sent after the next start. Shorter than the last grace period of the shutdown.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

/// Sends the lines of one log until it is closed and all are sent.
#[derive(Debug)]
pub(in crate::audit_log) struct SinkTask {
    pub(in crate::audit_log) path: PathBuf,
    /// The endpoint of the config in force.
    pub(in crate::audit_log) endpoint: watch::Receiver<Option<Arc<SinkEndpoint>>>,
    /// Sequence number of the last written line; 0 before the first is written.
    pub(in crate::audit_log) written: watch::Receiver<u64>,
    pub(in crate::audit_log) metrics: Arc<Metrics>,
    /// Place of the last accepted line.
    pub(in crate::audit_log) position: Option<ReadPosition>,
    /// True if the last attempt failed; logged when it changes.
    pub(in crate::audit_log) is_failing: bool,
    /// Lines that are not sent, as a part of the metric for all logs.
    pub(in crate::audit_log) lag: i64,
    /// Cancelled when the server shuts down.
    pub(in crate::audit_log) shutdown: CancellationToken,
    /// Cancelled at the end of this task, which a later task for the same path may cause.
    pub(in crate::audit_log) end: CancellationToken,
}

impl SinkTask {
    /// Sends until the log is closed and sent, or [`SHUTDOWN_TIMEOUT`] has passed since
    /// it was closed and the server shuts down.
    pub(in crate::audit_log) async fn run(mut self) {
        let (closed, end) = (self.closed_for_good(), self.end.clone());
        let deadline = async {
            closed.await;
            sleep(SHUTDOWN_TIMEOUT).await;
        };
        tokio::select! {
            () = self.send_all() => (),
            () = deadline => (),
            () = end.cancelled() => return,
        }
        self.log_unsent_lines();
    }

    /// Returns a future that waits until the log is closed and the server shuts down.
    fn closed_for_good(&self) -> impl Future<Output = ()> + use<> {
        let (mut written, shutdown) = (self.written.clone(), self.shutdown.clone());
        async move {
            // Fails when the writer has ended.
            drop(written.wait_for(|_| false).await);
            shutdown.cancelled().await;
        }
    }

    async fn send_all(&mut self) {
        let Some(mut endpoint) = self.wait_for_endpoint().await else {
            return;
        };
        self.check_position().await;
        let mut backoff = Backoff::new(MIN_BACKOFF, MAX_BACKOFF);
        while let Some(last_seq) = self.wait_for_lines(&endpoint).await {
            match self.read(&endpoint, last_seq).await {
                Ok(batch) => {
                    backoff.reset();
                    if self.deliver(batch).await.is_break() {
                        return;
                    }
                }
                Err(error) => {
                    if self.fail(&error, &mut backoff).await.is_break() {
                        return;
                    }
                }
            }
            match self.wait_for_endpoint().await {
                Some(current) => endpoint = current,
                None => return,
            }
        }
    }

    /// Waits until the config in force has an endpoint; returns `None` if the log was
    /// closed without.
    async fn wait_for_endpoint(&mut self) -> Option<Arc<SinkEndpoint>> {
        if self.endpoint.borrow().is_none() {
            self.set_lag(0);
        }
        self.endpoint.wait_for(Option::is_some).await.ok()?.clone()
    }

    /// Sends all lines if the last accepted line is that of another log.
    async fn check_position(&mut self) {
        let written = self.written.wait_for(|seq| *seq > 0).await;
        let last_seq = written.map(|seq| *seq).unwrap_or_default();
        self.position.take_if(|position| position.seq > last_seq);
    }

    /// Waits for lines that are not sent, and a moment for a full batch. Returns the
    /// sequence number of the last written line; `None` if the log is closed and sent.
    async fn wait_for_lines(&mut self, endpoint: &SinkEndpoint) -> Option<u64> {
        let sent = self.sent_seq();
        self.written.wait_for(|seq| *seq > sent).await.ok()?;
        self.record_lag();
        let full = sent.saturating_add(endpoint.settings.batch.lines as u64);
        drop(timeout(LINGER_TIMEOUT, self.written.wait_for(|seq| *seq >= full)).await);
        Some(*self.written.borrow())
    }

    async fn read(&self, endpoint: &SinkEndpoint, last_seq: u64) -> Result<LineBatch, SendError> {
        let (path, after) = (self.path.clone(), self.position.clone());
        let limits = BatchLimits {
            lines: endpoint.settings.batch.lines,
            bytes: endpoint.settings.batch.bytes,
            last_seq,
        };
        let read = tokio::task::spawn_blocking(move || read_batch(&path, after.as_ref(), limits));
        let batch = read.await.map_err(io::Error::from)??;
        if batch.lines.is_empty() {
            return Err(io::Error::from(ErrorKind::NotFound).into());
        }
        Ok(batch)
    }

    /// Sends a batch until the endpoint accepts it, in parts if it is too large for it, or until the
    /// config in force has no endpoint. Breaks like [`Self::fail`].
    async fn deliver(&mut self, batch: LineBatch) -> ControlFlow<()> {
        let LineBatch { lines, mut missing } = batch;
        let lines = Arc::new(lines);
        let (mut start, mut size) = (0, lines.len());
        let mut backoff = Backoff::new(MIN_BACKOFF, MAX_BACKOFF);
        while start < lines.len() {
            let endpoint = self.endpoint.borrow_and_update().clone();
            let Some(endpoint) = endpoint else { break };
            let end = lines.len().min(start + size);
            let unsent = match endpoint.send(&lines, start..end).await {
                Ok(unsent) => unsent,
                Err(SendError::TooLarge) if end - start > 1 => {
                    size = (end - start) / 2;
                    continue;
                }
                // It never fits.
                Err(SendError::TooLarge) => UnsentLines {
                    refused: 1,
                    damaged: 0,
                },
                Err(error) => {
                    self.fail(&error, &mut backoff).await?;
                    continue;
                }
            };
            backoff.reset();
            self.record_missing(std::mem::take(&mut missing));
            if let Some(last) = end.checked_sub(1).and_then(|last| lines.get(last)) {
                let accepted = (end - start) as u64;
                self.record_accepted(last, accepted, unsent).await;
            }
            start = end;
        }
        Continue(())
    }

    /// Records a failure and waits before the next attempt. Breaks if the log is closed, and the
    /// server shuts down or the file is gone.
    async fn fail(&mut self, error: &SendError, backoff: &mut Backoff) -> ControlFlow<()> {
        self.record_failure(error);
        let is_gone =
            matches!(error, SendError::Disk(error) if error.kind() == ErrorKind::NotFound);
        let is_closed = self.written.has_changed().is_err();
        if is_closed && (is_gone || self.shutdown.is_cancelled()) {
            return Break(());
        }
        self.pause(backoff).await;
        Continue(())
    }

    /// Waits before the next attempt, longer each time, and counts the lines that are
    /// written meanwhile; ends early if the endpoint changes, or the log is closed and the server
    /// shuts down.
    async fn pause(&mut self, backoff: &mut Backoff) {
        let (pause, closed) = (sleep(backoff.next_delay()), self.closed_for_good());
        tokio::pin!(pause, closed);
        loop {
            tokio::select! {
                () = &mut pause => return,
                () = &mut closed => return,
                Ok(()) = self.endpoint.changed() => return,
                Ok(()) = self.written.changed() => self.record_lag(),
            }
        }
    }

    async fn record_accepted(&mut self, last: &PlacedLine, lines: u64, unsent: UnsentLines) {
        let UnsentLines { refused, damaged } = unsent;
        self.count_lines("sent", lines.saturating_sub(refused + damaged));
        self.count_lines("refused", refused);
        self.count_lines("lost", damaged);
        if damaged > 0 {
            tracing::error!(
                audit.lines = damaged,
                "audit sink: damaged lines were not sent"
            );
        }
        if refused > 0 {
            tracing::error!(
                audit.lines = refused,
                "audit sink: the endpoint refused lines for good"
            );
        }
        if std::mem::take(&mut self.is_failing) {
            self.metrics.export_failures.end(AUDIT_SINK);
            tracing::info!("audit sink: sending recovered");
        }
        self.position = Some(last.position.clone());
        self.record_lag();
        let (path, position) = (self.path.clone(), last.position.clone());
        let saved = tokio::task::spawn_blocking(move || progress::save(&path, &position)).await;
        if let Err(error) = saved.map_err(io::Error::from).flatten() {
            self.record_failure(&error.into());
        }
    }

    fn record_missing(&self, lines: u64) {
        if lines > 0 {
            self.count_lines("lost", lines);
            tracing::error!(
                audit.lines = lines,
                "audit sink: lines were removed or damaged before they were sent"
            );
        }
    }

    fn count_lines(&self, outcome: &'static str, lines: u64) {
        let counter = self.metrics.audit_sink_lines.with([outcome.into()]);
        counter.inc_by(lines);
    }

    fn record_failure(&mut self, error: &SendError) {
        let failed = &self.metrics.audit_sink_failures;
        failed.with([error.reason().into()]).inc();
        let failures = &self.metrics.export_failures;
        failures.keep(AUDIT_SINK, error.to_string());
        self.record_lag();
        if !std::mem::replace(&mut self.is_failing, true) {
            tracing::warn!(%error, "audit sink: sending failed");
        }
    }

    fn record_lag(&mut self) {
        let last_seq = *self.written.borrow();
        self.record_lag_behind(last_seq);
    }

    /// Counts the lines up to this one that are not sent.
    pub(in crate::audit_log) fn record_lag_behind(&mut self, last_seq: u64) {
        let lag = i64::try_from(last_seq.saturating_sub(self.sent_seq()));
        self.set_lag(lag.unwrap_or(i64::MAX));
    }

    fn set_lag(&mut self, lag: i64) {
        self.metrics.audit_sink_lag.inc_by(lag - self.lag);
        self.lag = lag;
    }

    fn log_unsent_lines(&self) {
        let lines = self.written.borrow().saturating_sub(self.sent_seq());
        if lines > 0 && self.endpoint.borrow().is_some() {
            tracing::warn!(
                audit.path = %self.path.display(),
                audit.lines = lines,
                "audit sink: the last lines of the log were not sent"
            );
        }
    }

    fn sent_seq(&self) -> u64 {
        self.position.as_ref().map_or(0, |position| position.seq)
    }
}

impl Drop for SinkTask {
    fn drop(&mut self) {
        self.set_lag(0);
        if self.is_failing {
            self.metrics.export_failures.end(AUDIT_SINK);
        }
        self.end.cancel();
    }
}
