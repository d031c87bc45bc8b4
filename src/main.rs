//! The binary: it calls the library, which has everything else.

use std::process::ExitCode;

/// Allocator for many small objects of many requests at once, on many threads.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    hookgate::cli::main()
}
