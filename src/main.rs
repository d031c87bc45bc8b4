//! The binary: everything is in the library.

use std::process::ExitCode;

use tikv_jemallocator::Jemalloc;

/// Many small things of many requests are alive at once, on many threads.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

fn main() -> ExitCode {
    hookgate::cli::main()
}
