//! `hookgate key`: generates a key for a caller.

use clap::Args;

use super::{failure::Failure, output::print};
use crate::{
    auth,
    config::{CALLER_NAME, is_caller_name},
};

/// Command-line arguments of `key`.
#[derive(Debug, Args)]
pub(super) struct KeyArgs {
    /// Name of the caller
    #[arg(default_value = "team-a", value_parser = caller_name)]
    name: String,
}

impl KeyArgs {
    /// Prints the key, which is not stored, and its hash for the config.
    pub(super) fn run(self) -> Result<(), Failure> {
        let (key, sha256) = auth::new_key()
            .ok_or_else(|| Failure::Failed("the system has no randomness".to_owned()))?;
        let name = self.name;
        Ok(print(&format!(
            "Give this key to the agent, as GEMINI_API_KEY, ANTHROPIC_AUTH_TOKEN or OPENAI_API_KEY, or as the header x-hookgate-key. It is not shown again:\n\
             {key}\n\n\
             Add this entry to the config, under `auth: {{ keys: [ … ] }}`:\n\
             - {{ name: \"{name}\", sha256: \"{sha256}\" }}"
        ))?)
    }
}

fn caller_name(text: &str) -> Result<String, String> {
    let name = is_caller_name(text).then(|| text.to_owned());
    name.ok_or_else(|| CALLER_NAME.to_owned())
}
