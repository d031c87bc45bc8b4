//! Options of log files: durability, size and rotation.

/// Options of writing lines: durability and limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteOptions {
    /// Durability of each batch after it is written.
    pub durability: Durability,
    /// Maximum size of a file, unless a single line is larger.
    pub max_file_bytes: u64,
    /// Number of rotated files to keep.
    pub max_rotated_files: usize,
}

/// Durability of written lines in a crash of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Each batch of lines is synced to the disk.
    Synced,
    /// The operating system writes lines some time later.
    Buffered,
}

impl Default for WriteOptions {
    fn default() -> Self {
        Self {
            durability: Durability::Synced,
            max_file_bytes: 100 << 20,
            max_rotated_files: 10,
        }
    }
}
