//! Background thread that writes queued lines to the log file and syncs it.

use std::{fmt, io, mem, sync::Arc, thread, time::Duration};

use tokio::sync::watch;

use crate::{
    hash_chain::ChainHead,
    log_file::LogFile,
    observer::{LogEvent, LogNotice, LogObserver},
    write_queue::{Batch, WriteQueue},
};

/// Pause before a failed write is retried; doubled with each attempt.
const MIN_RETRY_PAUSE: Duration = Duration::from_millis(100);
const MAX_RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Attempts for the last batch once the queue is closed.
const MAX_ATTEMPTS_AFTER_CLOSE: u32 = 20;

/// State of the log that commits wait for.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct WriteProgress {
    /// Pushed lines that are written or were dropped.
    pub(crate) written: u64,
    /// True if the next lines cannot be written.
    pub(crate) is_failing: bool,
}

/// Writes the lines of a queue until it is closed.
pub struct LogWriter {
    pub(crate) queue: Arc<WriteQueue>,
    pub(crate) progress: watch::Sender<WriteProgress>,
    pub(crate) observer: Arc<dyn LogObserver>,
    pub(crate) file: LogFile,
    pub(crate) head: ChainHead,
    /// Head for others than the writer.
    pub(crate) written_head: watch::Sender<ChainHead>,
    /// Notice of incomplete lines that were moved aside, until its line is written.
    pub(crate) repaired: Option<LogNotice>,
    /// True if the last write failed.
    pub(crate) has_failed: bool,
}

impl fmt::Debug for LogWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut writer = f.debug_struct("LogWriter");
        writer.field("file", &self.file).finish_non_exhaustive()
    }
}

impl LogWriter {
    /// Writes until the log is dropped. Blocks.
    pub fn run(mut self) {
        loop {
            let mut batch = self.queue.take();
            let is_last = batch.is_last;
            if batch.dropped > 0 {
                let lines = batch.dropped;
                let line = self.observer.line(&LogNotice::Dropped { lines });
                batch.lines.push(line);
            }
            if is_last {
                batch.lines.push(self.observer.line(&LogNotice::Stop));
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
        let bytes = loop {
            let error = match self.write(batch) {
                Ok(bytes) => break bytes,
                Err(error) => error,
            };
            self.record_failure(&error);
            if self.queue.wait_for_close(pause) {
                attempts_after_close += 1;
                thread::sleep(MIN_RETRY_PAUSE);
            }
            if attempts_after_close >= MAX_ATTEMPTS_AFTER_CLOSE {
                let lines = batch.lines.len() + self.queue.take_all();
                let lines = lines as u64;
                self.observer.record(LogEvent::Lost { lines });
                return false;
            }
            pause = (pause * 2).min(MAX_RETRY_PAUSE);
        };
        self.record_success(batch);
        self.observer.written(&bytes, &self.head);
        true
    }

    /// Writes a batch once. Returns the bytes of its lines.
    fn write(&mut self, batch: &Batch) -> io::Result<Vec<u8>> {
        self.move_torn_lines_aside()?;
        let mut head = self.head.clone();
        let mut bytes = Vec::new();
        if self.file.is_gone()? {
            head.append_line(&mut bytes, &self.observer.line(&LogNotice::Recreated));
        }
        if let Some(notice) = &self.repaired {
            head.append_line(&mut bytes, &self.observer.line(notice));
        }
        for line in &batch.lines {
            head.append_line(&mut bytes, line);
        }
        let first_seq = self.head.seq + 1;
        self.file.append(&bytes, first_seq, batch.options)?;
        self.repaired = None;
        let lines = head.seq - self.head.seq;
        self.observer.record(LogEvent::Written { lines });
        self.head = head;
        self.written_head.send_replace(self.head.clone());
        Ok(bytes)
    }

    /// Moves incomplete lines that a crash has left aside, before the first write.
    fn move_torn_lines_aside(&mut self) -> io::Result<()> {
        let notice = self.file.copy_torn_lines(&self.head)?;
        if let Some(LogNotice::Repaired { bytes, .. }) = notice {
            self.observer.record(LogEvent::Repaired { bytes });
            self.repaired = notice;
        }
        Ok(())
    }

    fn record_success(&mut self, batch: &Batch) {
        self.has_failed = false;
        let before = self.progress.send_replace(WriteProgress {
            written: batch.position,
            is_failing: false,
        });
        if before.is_failing {
            self.observer.record(LogEvent::Recovered);
        }
    }

    fn record_failure(&mut self, error: &io::Error) {
        // A commit that has waited for a disk that hangs has not recorded this error.
        if !mem::replace(&mut self.has_failed, true) {
            self.observer.record(LogEvent::Failed { error });
        }
        self.progress
            .send_modify(|progress| progress.is_failing = true);
    }
}

impl Drop for LogWriter {
    /// Ends commits that wait for further lines.
    fn drop(&mut self) {
        self.progress
            .send_modify(|progress| progress.is_failing = true);
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        path::{Path, PathBuf},
        sync::mpsc::{Receiver, Sender, channel},
        thread::JoinHandle,
    };

    use tempfile::TempDir;

    use super::*;
    use crate::{Log, OpenError, WriteOptions, lines};

    /// Sends a description of each event.
    struct EventSender(Sender<String>);

    impl LogObserver for EventSender {
        fn line(&self, notice: &LogNotice) -> Vec<u8> {
            format!("\"notice\":\"{notice:?}\"").into_bytes()
        }

        fn record(&self, event: LogEvent<'_>) {
            // A test may end before the writer.
            let _ended = self.0.send(format!("{event:?}"));
        }
    }

    /// A log in a folder that can be moved away, with a running writer.
    struct MovableLog {
        folder: TempDir,
        log: Log,
        writer: JoinHandle<()>,
        events: Receiver<String>,
    }

    impl MovableLog {
        fn start() -> Self {
            let folder = TempDir::new().unwrap();
            fs::create_dir(folder.path().join("logs")).unwrap();
            let path = folder.path().join("logs/log");
            let (sender, events) = channel();
            let observer = Arc::new(EventSender(sender));
            let log = Log::open(&path, WriteOptions::default(), observer).unwrap();
            let writer = log.take_writer().unwrap();
            Self {
                folder,
                log,
                writer: thread::spawn(|| writer.run()),
                events,
            }
        }

        /// A log whose folder is away since its first line. Its second line cannot be written.
        fn failing() -> Self {
            let log = Self::start();
            log.push();
            Self::wait_for(&log.events, "Written");
            let logs = log.folder.path().join("logs");
            fs::rename(&logs, log.folder.path().join("gone")).unwrap();
            log.push();
            Self::wait_for(&log.events, "Failed");
            log
        }

        fn path(&self) -> PathBuf {
            self.folder.path().join("logs/log")
        }

        fn push(&self) {
            self.log.push(b"\"a\":1".to_vec());
        }

        /// Waits for an event whose description begins so.
        #[track_caller]
        fn wait_for(events: &Receiver<String>, begin: &str) -> String {
            let timeout = Duration::from_secs(20);
            loop {
                let event = events.recv_timeout(timeout).unwrap();
                if event.starts_with(begin) {
                    return event;
                }
            }
        }
    }

    fn text(path: &Path) -> String {
        let lines = lines(path).unwrap().map(Result::unwrap);
        let lines = lines.map(|line| String::from_utf8(line.bytes).unwrap());
        lines.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn a_recreated_log_begins_with_its_notice_although_earlier_attempts_failed() {
        let log = MovableLog::failing();

        fs::create_dir(log.folder.path().join("logs")).unwrap();
        MovableLog::wait_for(&log.events, "Recovered");

        let text = text(&log.path());
        let first = text.lines().next().unwrap();
        assert!(first.contains("\"notice\":\"Recreated\""), "{text}");
        assert_eq!(text.matches("Recreated").count(), 1, "{text}");
    }

    #[test]
    fn a_log_that_was_recreated_with_all_of_its_files_is_locked() {
        let log = MovableLog::failing();
        fs::create_dir(log.folder.path().join("logs")).unwrap();
        MovableLog::wait_for(&log.events, "Recovered");

        let (sender, _events) = channel();
        let second = Log::open(
            &log.path(),
            WriteOptions::default(),
            Arc::new(EventSender(sender)),
        );

        assert!(
            matches!(second, Err(OpenError::Locked { .. })),
            "{second:?}"
        );
    }

    #[test]
    fn all_queued_lines_count_as_lost_if_the_last_attempt_fails() {
        let log = MovableLog::failing();
        for _ in 0..10 {
            log.push();
        }

        let MovableLog {
            log,
            writer,
            events,
            folder: _folder,
        } = log;
        drop(log);
        writer.join().unwrap();

        let lost = MovableLog::wait_for(&events, "Lost");
        assert_eq!(lost, "Lost { lines: 11 }");
    }
}
