//! Secrets: found where the config says, and never shown.

use std::path::Path;

use secrecy::SecretString;

use super::{MissingSecrets, raw::RawSecret};

/// What stands for a secret that is not there.
const MADE_UP: &str = "made-up";

/// Fetches a secret; `directory` is what a relative path starts from. The error
/// says what is wrong and holds nothing of the secret.
pub(super) fn resolve(
    secret: &RawSecret,
    directory: &Path,
    missing: MissingSecrets,
) -> Result<SecretString, String> {
    let (origin, found) = match secret {
        RawSecret::Env(name) => {
            let origin = format!("environment variable `{name}`");
            let found = std::env::var(name).map_err(|_| format!("{origin} is not set"));
            (origin, found)
        }
        RawSecret::File(path) => {
            let origin = format!("file `{path}`");
            let found = std::fs::read_to_string(directory.join(path))
                .map_err(|error| format!("{origin} cannot be read: {error}"));
            (origin, found)
        }
    };
    let text = match (found, missing) {
        (Err(_), MissingSecrets::MadeUp) => return Ok(MADE_UP.into()),
        (found, _) => found?,
    };
    let text = text.trim();
    if text.is_empty() {
        return Err(format!("{origin} is empty"));
    }
    // Every secret here goes into a header one day.
    if !text.chars().all(|it| it.is_ascii_graphic()) {
        return Err(format!("{origin} holds blanks or special characters"));
    }
    Ok(text.into())
}
