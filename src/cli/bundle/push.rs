//! `hookgate bundle push`: publishes a bundle by HTTP PUT.

use std::{env, path::PathBuf, time::Duration};

use clap::Args;
use url::Url;

use super::files::read_bundle;
use crate::{
    cli::{
        failure::Failure,
        output::print,
        runtime::block_on,
        service_arguments::{ServiceUrlParser, read_token, valid_token},
    },
    service_client::{client_builder, root_cause},
};

/// Variable with the token, if no file has it.
const TOKEN: &str = "HOOKGATE_BUNDLE_TOKEN";

/// Time for the upload and the response.
const PUSH_TIMEOUT: Duration = Duration::from_mins(2);

/// Command-line arguments of `bundle push`.
#[derive(Debug, Args)]
pub(super) struct PushArgs {
    /// Path of the bundle
    bundle: PathBuf,
    /// URL to which the bundle is written
    #[arg(value_parser = ServiceUrlParser)]
    url: Url,
    /// Path of a file with a bearer token. Default: the variable `HOOKGATE_BUNDLE_TOKEN`
    #[arg(long, value_name = "PATH")]
    token_file: Option<PathBuf>,
}

impl PushArgs {
    pub(super) fn run(self) -> Result<(), Failure> {
        let bundle = read_bundle(&self.bundle)?;
        let bytes = bundle.to_bytes().map_err(Failure::of)?;
        let token = match &self.token_file {
            Some(path) => Some(read_token(path, "token file")?),
            None => token_variable()?,
        };
        let client = client_builder().timeout(PUSH_TIMEOUT).build();
        let client = client.map_err(Failure::of)?;
        let server = self.url.origin().ascii_serialization();
        let mut request = client
            .put(self.url)
            .header("content-type", "application/gzip")
            .body(bytes);
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        block_on(async {
            let response = request.send().await;
            let response = response.map_err(|error| {
                let cause = root_cause(error);
                Failure::Failed(format!("the server at {server} cannot be reached: {cause}"))
            })?;
            let status = response.status();
            if status.is_success() {
                return Ok(());
            }
            Err(Failure::Failed(format!(
                "the server responded with {status}"
            )))
        })?;
        let revision = &bundle.manifest().revision;
        Ok(print(&format!("published: revision {revision}"))?)
    }
}

/// Returns the token of the environment; `None` if there is none, or if it is empty.
fn token_variable() -> Result<Option<String>, Failure> {
    let text = env::var(TOKEN).ok().filter(|text| !text.is_empty());
    let token = text.map(|text| valid_token(&text, &format!("variable `{TOKEN}`")));
    token.transpose()
}
