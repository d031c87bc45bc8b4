//! `hookgate key`: a key for a caller, shown once.

use clap::Args;

use super::{Failure, print};
use crate::{
    auth,
    config::{CALLER_NAME, is_caller_name},
};

/// What `key` is told.
#[derive(Debug, Args)]
pub(super) struct Key {
    /// Who is to have it.
    #[arg(default_value = "team-a", value_parser = caller_name)]
    name: String,
}

impl Key {
    /// Only the hash of a key is kept, so this is the only time that it is seen.
    pub(super) fn run(self) -> Result<(), Failure> {
        let made = auth::new_key();
        let (key, sha256) =
            made.ok_or_else(|| Failure::Failed("the system has no randomness".to_owned()))?;
        let name = self.name;
        print(&format!(
            "Give this to the agent, as GEMINI_API_KEY or as the header x-hookgate-key. It is not shown again:\n\
             {key}\n\n\
             Put this into the config, under `auth: {{ keys: [ … ] }}`:\n\
             - {{ name: \"{name}\", sha256: \"{sha256}\" }}"
        ))
    }
}

/// A name that the config takes, too.
fn caller_name(text: &str) -> Result<String, String> {
    let is_name = is_caller_name(text).then(|| text.to_owned());
    is_name.ok_or_else(|| CALLER_NAME.to_owned())
}
