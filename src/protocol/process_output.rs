//! Output and exit status of a hook process.

use std::fmt;

/// Output and exit status of a hook process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessOutput {
    /// Exit status of the process.
    pub exit: ProcessExit,
    /// Complete contents of standard output.
    pub stdout: Vec<u8>,
    /// Complete contents of standard error.
    pub stderr: Vec<u8>,
}

impl ProcessOutput {
    /// Returns the output of a process that exited with code 0 and an empty
    /// standard error.
    pub const fn success(stdout: Vec<u8>) -> Self {
        Self {
            exit: ProcessExit::Code(0),
            stdout,
            stderr: Vec::new(),
        }
    }
}

/// Exit status of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessExit {
    /// Code that the process exited with.
    Code(i32),
    /// Number of the signal that terminated the process.
    Signal(i32),
}

impl fmt::Display for ProcessExit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // Of the shell, if it cannot start the command.
            Self::Code(126) => f.write_str("exit code 126 (not executable)"),
            Self::Code(127) => f.write_str("exit code 127 (not found)"),
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(signal) => write!(f, "terminated by signal {signal}"),
        }
    }
}
