//! The binary: everything is in the library.

use std::process::ExitCode;

/// Many small things of many requests are alive at once, on many threads.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    hookgate::cli::main()
}
