//! Positions in config files, and the problems found there.

use std::{fmt, path::PathBuf};

use serde::Deserialize;
use thiserror::Error;

use crate::invisible_char::escape_invisible;

/// A position in a file. Displayed as `file:line:column`.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub struct SourceSpan {
    /// The file, as the operator named it.
    pub file: PathBuf,
    /// The line, from 1.
    pub line: u64,
    /// The column in characters, from 1.
    pub column: u64,
}

/// An error or warning about a config. Displayed as `file:line:column: message`, in one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The position; `None` if no file is involved, as for command-line options.
    pub span: Option<SourceSpan>,
    /// The message for the operator.
    pub message: String,
}

/// The reasons why a config was refused.
#[derive(Debug, Error)]
pub struct ConfigError {
    /// All problems, in the order of the files and of their lines. Never empty.
    pub problems: Vec<Problem>,
    /// Files that the config has, as far as they are known.
    pub files: Vec<PathBuf>,
}

impl Problem {
    /// Returns a problem at a position, which without a config file is in no file.
    pub(crate) fn at(span: &SourceSpan, message: impl Into<String>) -> Self {
        Self {
            span: span.is_in_file().then(|| span.clone()),
            message: message.into(),
        }
    }

    pub(crate) fn without_span(message: impl Into<String>) -> Self {
        Self {
            span: None,
            message: message.into(),
        }
    }
}

impl ConfigError {
    /// Returns the error of these problems, if there are any.
    pub(crate) fn check(problems: Vec<Problem>) -> Result<(), Self> {
        if problems.is_empty() {
            return Ok(());
        }
        Err(problems.into())
    }

    /// Gives this position to the problems without one.
    #[must_use]
    pub(crate) fn located_at(mut self, span: &SourceSpan) -> Self {
        for problem in &mut self.problems {
            problem.span.get_or_insert_with(|| span.clone());
        }
        self
    }
}

impl SourceSpan {
    /// Returns whether the position is in a file, and not that of a command-line option.
    pub(crate) fn is_in_file(&self) -> bool {
        !self.file.as_os_str().is_empty()
    }
}

impl fmt::Display for SourceSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file.display(), self.line, self.column)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(span) = &self.span {
            write!(f, "{span}: ")?;
        }
        f.write_str(&escape_invisible(&self.message))
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.problems.iter().map(Problem::to_string).collect();
        f.write_str(&lines.join("\n"))
    }
}

impl From<Problem> for ConfigError {
    fn from(problem: Problem) -> Self {
        Self::from(vec![problem])
    }
}

impl From<Vec<Problem>> for ConfigError {
    fn from(problems: Vec<Problem>) -> Self {
        let files = Vec::new();
        Self { problems, files }
    }
}
