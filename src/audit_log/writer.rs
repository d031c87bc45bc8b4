//! Background thread that writes queued lines to the log file and syncs it.

use std::{io, sync::Arc, thread, time::Duration};

use tokio::sync::watch;

use super::{
    hash_chain::ChainHead,
    log_file::{LogFile, TornTail},
    record::AuditRecord,
    write_queue::{Batch, WriteQueue},
};
use crate::observe::Metrics;

/// Pause before a failed write is retried; doubled with each attempt.
const MIN_RETRY_PAUSE: Duration = Duration::from_millis(100);
const MAX_RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Attempts for the last batch once the queue is closed.
const MAX_ATTEMPTS_AFTER_CLOSE: u32 = 20;

/// State of the log that commits wait for.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct WriteProgress {
    /// Pushed lines that are written or were dropped.
    pub(super) written: u64,
    /// Whether the next lines cannot be written.
    pub(super) is_failing: bool,
}

/// Writes the lines of a queue until it is closed.
#[derive(Debug)]
pub(super) struct LogWriter {
    pub(super) queue: Arc<WriteQueue>,
    pub(super) progress: watch::Sender<WriteProgress>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) file: LogFile,
    pub(super) head: ChainHead,
    pub(super) torn: Option<TornTail>,
}

impl LogWriter {
    /// Writes until the queue is closed. Blocks.
    pub(super) fn run(mut self) {
        let repaired = self.torn.take().map(|TornTail { bytes, file }| {
            tracing::warn!(
                audit.bytes = bytes,
                "decision log: moved incomplete lines aside"
            );
            AuditRecord::Repaired { bytes, file }.to_line("")
        });
        let mut first_line = repaired;
        loop {
            let mut batch = self.queue.take();
            let is_last = batch.is_last;
            batch.lines.splice(0..0, first_line.take());
            if batch.dropped > 0 {
                let lines = batch.dropped;
                batch.lines.push(AuditRecord::Dropped { lines }.to_line(""));
            }
            if is_last {
                batch.lines.push(AuditRecord::Stop.to_line(""));
            }
            let is_written = self.write_with_retries(&batch);
            if is_last || !is_written {
                return;
            }
        }
    }

    /// Writes a batch, however often it fails. Returns `false` if the queue was closed
    /// and [`MAX_ATTEMPTS_AFTER_CLOSE`] have failed.
    fn write_with_retries(&mut self, batch: &Batch) -> bool {
        let (mut pause, mut attempts_after_close) = (MIN_RETRY_PAUSE, 0);
        while let Err(error) = self.write(batch) {
            self.record_failure(&error);
            if self.queue.wait_for_close(pause) {
                attempts_after_close += 1;
                thread::sleep(MIN_RETRY_PAUSE);
            }
            if attempts_after_close >= MAX_ATTEMPTS_AFTER_CLOSE {
                let lines = batch.lines.len() as u64;
                self.metrics.audit_dropped_lines.inc_by(lines);
                tracing::error!(
                    audit.lines = lines,
                    "decision log: records lost at shutdown"
                );
                return false;
            }
            pause = (pause * 2).min(MAX_RETRY_PAUSE);
        }
        self.record_success(batch);
        true
    }

    fn write(&mut self, batch: &Batch) -> io::Result<()> {
        let mut head = self.head.clone();
        let mut bytes = Vec::new();
        if self.file.is_gone()? {
            head.append_line(&mut bytes, &AuditRecord::Recreated.to_line(""));
        }
        for line in &batch.lines {
            head.append_line(&mut bytes, line);
        }
        let first_seq = self.head.seq + 1;
        let write_mode = batch.write_mode;
        self.file
            .append(&bytes, first_seq, write_mode.rotation, write_mode.mode)?;
        self.metrics.audit_lines.inc_by(head.seq - self.head.seq);
        self.head = head;
        Ok(())
    }

    fn record_success(&self, batch: &Batch) {
        if self.progress.borrow().is_failing {
            tracing::info!("decision log: writing recovered");
        }
        self.metrics.audit_failing.set(0);
        self.progress.send_replace(WriteProgress {
            written: batch.position,
            is_failing: false,
        });
    }

    fn record_failure(&self, error: &io::Error) {
        if !self.progress.borrow().is_failing {
            tracing::error!(%error, "decision log: writing failed");
        }
        self.metrics.audit_failing.set(1);
        self.progress
            .send_modify(|progress| progress.is_failing = true);
    }
}
