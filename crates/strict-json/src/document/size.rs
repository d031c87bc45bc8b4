//! Numbers of values, before any of them is read.

use super::{Document, DocumentError};

impl Document {
    /// Returns the number of values in the text that are laid out, at all depths. It is known
    /// without a search.
    pub fn values(&self) -> usize {
        let span = self.span.as_ref();
        span.map_or(0, |span| span.layout.size(span.index))
    }

    /// Returns the number of values at all depths of the text from which the object was parsed.
    /// It is known without a search.
    pub fn all_values(&self) -> usize {
        self.span.as_ref().map_or(0, |span| span.layout.total)
    }

    /// Returns the number of values `levels` below a field; its elements are 1 below.
    ///
    /// # Errors
    ///
    /// Fails as [`Self::get`] does.
    pub fn count(&self, spellings: &[&str], levels: usize) -> Result<usize, DocumentError> {
        let span = self.text(spellings)?.map(|text| text.span()).transpose()?;
        Ok(span.map_or(0, |span| span.layout.count(span.index, levels)))
    }
}
