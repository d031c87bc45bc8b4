//! Errors of the model API that end an answer.

use crate::dialect::{error::DialectError, google::response::document::ResponseDocument};

impl ResponseDocument {
    /// Returns whether it is an error of the model API that ends the answer.
    ///
    /// # Errors
    ///
    /// Fails if the error is ambiguous.
    pub fn has_error(&self) -> Result<bool, DialectError> {
        if self.is_text() {
            return Ok(false);
        }
        let error = self.document().bytes_of(&["error"])?;
        Ok(error.is_some_and(|error| *error != *b"null"))
    }
}
