//! Writing to and reading from the pipes of a process, within limits.

use std::io;

use bytes::Bytes;
use strict_json::Names;
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader},
    process::ChildStdin,
};

use super::error::TransportError;
use crate::config::AnswerBy;

/// Minimum growth of the buffer of an output.
const MIN_READ_BYTES: usize = 4096;

/// Reason to stop reading before the end of the pipes.
pub(super) enum EarlyEnd {
    /// The first line is a complete output.
    FirstLine,
    /// An error, or too much output.
    Failed(TransportError),
}

impl From<TransportError> for EarlyEnd {
    fn from(error: TransportError) -> Self {
        Self::Failed(error)
    }
}

/// Writes the rest of `input` and closes the pipe.
pub(super) async fn feed(
    stdin: &mut Option<ChildStdin>,
    input: &mut Bytes,
) -> Result<(), EarlyEnd> {
    let Some(pipe) = stdin else {
        return Ok(());
    };
    let written = pipe.write_all_buf(input).await;
    *stdin = None;
    match written {
        // A hook need not read its input.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written.map_err(TransportError::ProcessLost)?),
    }
}

/// Reads to the end, or to the end of a first line that is a complete output.
pub(super) async fn drain(
    output: Option<impl AsyncRead + Unpin>,
    buffer: &mut Vec<u8>,
    limit: usize,
    answer_by: AnswerBy,
) -> Result<(), EarlyEnd> {
    let Some(output) = output else {
        return Ok(());
    };
    let mut output = BufReader::new(output.take((limit as u64).saturating_add(1)));
    if answer_by == AnswerBy::Line {
        let read = output.read_until(b'\n', buffer).await;
        read.map_err(TransportError::ProcessLost)?;
        if buffer.ends_with(b"\n") && buffer.len() <= limit && is_object(buffer) {
            return Err(EarlyEnd::FirstLine);
        }
    }
    while read_some(&mut output, buffer, limit).await? > 0 {}
    if buffer.len() > limit {
        return Err(TransportError::OutputLimit.into());
    }
    Ok(())
}

/// Reads what has arrived. The buffer grows to the limit and no further, where
/// `read_to_end` would double it beyond.
async fn read_some(
    output: &mut (impl AsyncRead + Unpin),
    buffer: &mut Vec<u8>,
    limit: usize,
) -> Result<usize, TransportError> {
    if buffer.len() == buffer.capacity() {
        let rest = limit.saturating_sub(buffer.len()).saturating_add(1);
        buffer.reserve_exact(buffer.len().max(MIN_READ_BYTES).min(rest));
    }
    let read = output.read_buf(buffer).await;
    read.map_err(TransportError::ProcessLost)
}

/// Returns whether a line is an unambiguous JSON object.
fn is_object(line: &[u8]) -> bool {
    line.trim_ascii_start().starts_with(b"{") && strict_json::check(line, Names::Free).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads output that arrives in two chunks; returns it, and whether it ended with
    /// the first line.
    async fn read(chunks: (&[u8], &[u8]), limit: usize) -> Result<(Vec<u8>, bool), String> {
        let mut buffer = Vec::new();
        let output = chunks.0.chain(chunks.1);
        match drain(Some(output), &mut buffer, limit, AnswerBy::Line).await {
            Ok(()) => Ok((buffer, false)),
            Err(EarlyEnd::FirstLine) => Ok((buffer, true)),
            Err(EarlyEnd::Failed(error)) => Err(error.to_string()),
        }
    }

    /// Checks the complete output in a text, for all splits into two chunks.
    async fn check_splits(text: &str, output: Option<&str>) {
        let expected = (output.unwrap_or(text).into(), output.is_some());
        for index in 0..=text.len() {
            let read = read(text.as_bytes().split_at(index), 100).await;
            assert_eq!(read.as_ref(), Ok(&expected), "{text} at {index}");
        }
    }

    #[tokio::test]
    async fn a_first_line_is_an_output_however_it_is_split() {
        for (text, output) in [
            ("{}\n", Some("{}\n")),
            ("{\"a\":1}\r\n{\"b\":2}\n", Some("{\"a\":1}\r\n")),
            ("\t{} \ntext", Some("\t{} \n")),
            ("", None),
            ("{}", None),
            ("{\"a\":1", None),
            ("\n{}\n", None),
            ("text\n{}\n", None),
            ("\u{feff}{}\n", None),
            ("[{}]\n{}\n", None),
            ("\"{}\"\n", None),
            ("{}{}\n", None),
            ("{}//\n", None),
            ("{\n}\n", None),
            ("{\"a\":1,\"\\u0061\":2}\n", None),
            ("{\"a\":\"\\ud83d\"}\n", None),
        ] {
            check_splits(text, output).await;
        }
    }

    #[tokio::test]
    async fn a_line_may_be_as_long_as_an_output() {
        let lines = b"{\"a\":1}\n{}\n";
        for index in 0..=lines.len() {
            let fits = read(lines.split_at(index), 8).await.unwrap();
            let long = read(lines.split_at(index), 7).await.unwrap_err();

            assert_eq!(fits, (lines[..8].to_vec(), true));
            assert_eq!(long, "output limit exceeded");
        }
    }
}
