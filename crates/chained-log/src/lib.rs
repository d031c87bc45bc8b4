//! A tamper-evident append-only log of JSON lines.
//!
//! A line is `{"seq":N,"prev":"P",…,"hash":"H"}`: `H` is the SHA-256 of the line up to
//! `,"hash":`, and `P` the `H` of the line before it. An edited, added or moved line,
//! and one that was removed between two others, breaks the chain, which [`verify`] detects in the
//! files and [`verify_copy`] in a copy. [`Log::push`] queues a line and never
//! waits; the queue is bounded, and dropped lines are counted in the log. One thread
//! runs the [`LogWriter`], which writes lines in batches, rotates full files, retries
//! what failed, and moves incomplete lines that a crash left aside. [`Log::commit`]
//! waits until lines are on disk.
//!
//! ```
//! use std::sync::Arc;
//!
//! use chained_log::{Log, LogEvent, LogNotice, LogObserver, WriteOptions, verify};
//!
//! struct Observer;
//!
//! impl LogObserver for Observer {
//!     fn line(&self, notice: &LogNotice) -> Vec<u8> {
//!         format!("\"notice\":\"{notice:?}\"").into_bytes()
//!     }
//!
//!     fn record(&self, _event: LogEvent<'_>) {}
//! }
//!
//! let folder = tempfile::tempdir()?;
//! let path = folder.path().join("log.jsonl");
//! let log = Log::open(&path, WriteOptions::default(), Arc::new(Observer))?;
//! let writer = log.take_writer().map(|writer| std::thread::spawn(|| writer.run()));
//! log.push(b"\"a\":1".to_vec());
//! drop(log); // ends the writer after the queued lines
//! writer.map(std::thread::JoinHandle::join);
//!
//! let verified = verify(&path)?;
//! assert_eq!((verified.lines, verified.first_seq), (2, 1)); // and a `Stop` notice
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod copy;
mod cursor;
mod error;
mod hash_chain;
mod log;
mod log_file;
mod observer;
mod paths;
mod reader;
mod search;
mod write_options;
mod write_queue;
mod writer;

pub use self::{
    copy::{CopyProblem, CopyVerification, verify_copy},
    cursor::{BatchLimits, LineBatch, PlacedLine, ReadPosition, read_batch},
    error::{CommitError, OpenError},
    hash_chain::ChainHead,
    log::Log,
    log_file::rotated_files,
    observer::{LogEvent, LogNotice, LogObserver},
    reader::{LogLine, ReadError, Verification, lines, verify},
    search::{contains, lines_from},
    write_options::{Durability, WriteOptions},
    writer::LogWriter,
};
