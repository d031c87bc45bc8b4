//! Options of a request that reports an event, in its query.

use crate::{
    dialect::RequestLineError,
    error::{ApiError, ErrorReason},
};

/// Options of a request, each `0` or `1`, and off if it is absent.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ReportOptions {
    /// True if the answer holds what each hook did.
    pub(super) is_explained: bool,
    /// True if the answer waits for the hooks of an advisory event.
    pub(super) waits: bool,
}

impl ReportOptions {
    /// Parses a query, without its `?`.
    ///
    /// # Errors
    ///
    /// Fails for other parameters and values, and for one that is given twice.
    pub(super) fn parse(query: &str) -> Result<Self, ApiError> {
        let mut options = Self::default();
        let mut seen = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            if seen.contains(&name) {
                return Err(RequestLineError::Twice(name.to_owned()).into());
            }
            seen.push(name);
            let option = match name {
                "explain" => &mut options.is_explained,
                "wait" => &mut options.waits,
                // The credential of the caller.
                "key" => continue,
                _ => return Err(RequestLineError::Query(name.to_owned()).into()),
            };
            *option = match value {
                "0" => false,
                "1" => true,
                _ => {
                    let message = format!("`{name}` must be `0` or `1`");
                    return Err(ApiError::new(ErrorReason::BadQuery, message));
                }
            };
        }
        Ok(options)
    }
}
