//! `hookgate mock`: the mock of all supported model APIs.

use std::{net::SocketAddr, num::NonZeroUsize, path::PathBuf, time::Duration};

use clap::Args;

use super::{
    failure::Failure,
    output::print,
    runtime::{block_on, shutdown_signals},
};
use crate::server;
use mock_model_api::{MockConfig, Script, router, serve};

pub(super) const EXAMPLES: &str = "Examples:
  hookgate mock --listen 127.0.0.1:9090 --chunks 5 --interval 100
  hookgate mock --responses answers.responses
  curl http://127.0.0.1:9090/v1/messages -d '{\"model\":\"claude-haiku-4-5\",\"max_tokens\":9,\"messages\":[{\"role\":\"user\",\"content\":\"hello\"}]}'
  curl http://127.0.0.1:9090/__requests";

/// Command-line arguments of `mock`.
#[derive(Debug, Args)]
pub(super) struct MockArgs {
    /// Address to listen on
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9090")]
    listen: SocketAddr,
    /// File with responses in order: one JSON object `{"method", "response"}` per line. For all
    /// APIs, the method is `generateContent` or `generateContentStream`
    #[arg(long, value_name = "FILE")]
    responses: Option<PathBuf>,
    /// Number of chunks of a streamed text
    #[arg(long, value_name = "N", default_value = "3")]
    chunks: NonZeroUsize,
    /// Delay before each chunk, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 0)]
    interval: u64,
    /// Size of the text of each chunk, in bytes
    #[arg(long, value_name = "BYTES")]
    chunk_bytes: Option<usize>,
}

impl MockArgs {
    pub(super) fn run(self) -> Result<(), Failure> {
        let config = MockConfig {
            script: self.script()?,
            chunks: self.chunks.get(),
            interval: Duration::from_millis(self.interval),
            chunk_bytes: self.chunk_bytes,
        };
        block_on(async {
            let stop = shutdown_signals(1)?;
            let listener = server::bind("--listen", self.listen)?;
            print(&format!("listening on http://{}", listener.local_addr()?))?;
            serve(listener, router(config), stop).await;
            Ok(())
        })
    }

    fn script(&self) -> Result<Option<Script>, Failure> {
        let Some(file) = &self.responses else {
            return Ok(None);
        };
        let failed =
            |error: &dyn std::fmt::Display| Failure::Failed(format!("{}: {error}", file.display()));
        let text = std::fs::read_to_string(file).map_err(|error| failed(&error))?;
        Script::parse(&text)
            .map(Some)
            .map_err(|error| failed(&error))
    }
}
