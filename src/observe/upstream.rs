//! The model API did not answer, or not in a way that can be read.

/// It did not.
#[derive(Debug)]
pub struct UpstreamFailed<'a> {
    /// The request that it was asked for.
    pub request_id: &'a str,
    /// What went wrong.
    pub cause: &'a str,
    /// Whether there was an answer.
    pub unreadable: bool,
}

impl UpstreamFailed<'_> {
    /// Logs it.
    pub fn emit(&self) {
        let (request_id, error) = (self.request_id, self.cause);
        if self.unreadable {
            tracing::warn!(
                request.id = request_id,
                error,
                "upstream response unreadable"
            );
        } else {
            tracing::warn!(request.id = request_id, error, "upstream request failed");
        }
    }
}
