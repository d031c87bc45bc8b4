//! The one who writes.

use std::{io, sync::Arc, time::Duration};

use tokio::sync::watch;

use super::{
    file::{LogFile, Torn},
    hash_chain::{Head, seal},
    record::{Record, write},
    write_queue::{Batch, Queue},
};
use crate::observe::Metrics;

/// How long to wait before the same lines are tried again.
const AGAIN: Duration = Duration::from_millis(100);
const AGAIN_AT_MOST: Duration = Duration::from_secs(1);

/// How often they are tried once nothing follows.
const LAST_TRIES: u32 = 20;

/// How far the log is.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Progress {
    /// So many of the lines that were told are written.
    pub(super) written: u64,
    /// Whether the next ones cannot be.
    pub(super) failing: bool,
}

/// Writes what waits, until nothing follows.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) queue: Arc<Queue>,
    pub(super) progress: watch::Sender<Progress>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) file: LogFile,
    pub(super) head: Head,
    pub(super) torn: Option<Torn>,
}

impl Writer {
    /// Writes. Blocks until the log is let go.
    pub(super) fn run(mut self) {
        let mut first = Vec::new();
        if let Some(Torn { bytes, file }) = self.torn.take() {
            tracing::warn!(
                audit.bytes = bytes,
                "decision log: moved incomplete lines aside"
            );
            first.push(write(&Record::Repaired { bytes, file }, ""));
        }
        loop {
            let mut batch = self.queue.take();
            let last = batch.last;
            batch.lines.splice(0..0, std::mem::take(&mut first));
            if batch.dropped > 0 {
                let lines = batch.dropped;
                batch.lines.push(write(&Record::Dropped { lines }, ""));
            }
            if last {
                batch.lines.push(write(&Record::Stop, ""));
            }
            let written = self.write_all(&batch);
            if last || !written {
                return;
            }
        }
    }

    /// Writes a batch, however long it takes. Whether it is written: at the end,
    /// patience has an end, too.
    fn write_all(&mut self, batch: &Batch) -> bool {
        let (mut pause, mut tries) = (AGAIN, 0);
        loop {
            let Err(cause) = self.write(batch) else {
                self.done(batch);
                return true;
            };
            self.failed(&cause);
            let closed = self.queue.pause(pause);
            if closed {
                tries += 1;
                std::thread::sleep(AGAIN);
            }
            if tries >= LAST_TRIES {
                let lines = batch.lines.len() as u64;
                self.metrics.audit_dropped_lines.inc_by(lines);
                tracing::error!(
                    audit.lines = lines,
                    "decision log: records lost at shutdown"
                );
                return false;
            }
            pause = (pause * 2).min(AGAIN_AT_MOST);
        }
    }

    fn write(&mut self, batch: &Batch) -> io::Result<()> {
        let mut head = self.head.clone();
        let mut bytes = Vec::new();
        if self.file.is_gone()? {
            seal(&mut bytes, &mut head, &write(&Record::Lost, ""));
        }
        for line in &batch.lines {
            seal(&mut bytes, &mut head, line);
        }
        let manner = batch.manner;
        let first = self.head.seq + 1;
        self.file
            .append(&bytes, first, manner.rotation, manner.mode)?;
        let added = head.seq - self.head.seq;
        self.metrics.audit_lines.inc_by(added);
        self.head = head;
        Ok(())
    }

    fn done(&self, batch: &Batch) {
        if self.progress.borrow().failing {
            tracing::info!("decision log: writing recovered");
        }
        self.metrics.audit_failing.set(0);
        self.progress.send_replace(Progress {
            written: batch.until,
            failing: false,
        });
    }

    fn failed(&self, cause: &io::Error) {
        if !self.progress.borrow().failing {
            tracing::error!(error = %cause, "decision log: writing failed");
        }
        self.metrics.audit_failing.set(1);
        self.progress.send_modify(|it| it.failing = true);
    }
}
