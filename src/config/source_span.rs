//! Where something stands in a file, and what is wrong with it.

use std::{fmt, path::PathBuf};

/// A place in a file. Shown as `file:line:column`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The file, as the operator named it.
    pub file: PathBuf,
    /// The line, from 1.
    pub line: u64,
    /// The column in characters, from 1.
    pub column: u64,
}

/// Something wrong. Shown as `file:line:column: message`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where; `None` if it stands in no file.
    pub place: Option<Place>,
    /// What, for the operator.
    pub message: String,
}

impl Problem {
    pub(super) fn at(place: &Place, message: impl Into<String>) -> Self {
        Self {
            place: Some(place.clone()),
            message: message.into(),
        }
    }

    pub(super) fn nowhere(message: impl Into<String>) -> Self {
        Self {
            place: None,
            message: message.into(),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file.display(), self.line, self.column)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = &self.place {
            write!(f, "{place}: ")?;
        }
        f.write_str(&self.message)
    }
}
