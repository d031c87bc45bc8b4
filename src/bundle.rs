//! Policy bundles: their checks before they are published or used.

mod check;

pub use self::check::{BundleCheckError, REQUIRED_FILE, check_guards, load_layers, run_tests};
