//! An upstream is left alone, or asked again.

/// It failed again and again.
#[derive(Debug)]
pub struct CircuitOpened<'a> {
    /// Its name.
    pub upstream: &'a str,
    /// How it failed last.
    pub why: &'static str,
}

/// It is well again.
#[derive(Debug)]
pub struct CircuitClosed<'a> {
    /// Its name.
    pub upstream: &'a str,
}

impl CircuitOpened<'_> {
    /// Logs it.
    pub fn emit(&self) {
        let Self { upstream, why } = self;
        tracing::warn!(upstream, why, "an upstream is left alone");
    }
}

impl CircuitClosed<'_> {
    /// Logs it.
    pub fn emit(&self) {
        let upstream = self.upstream;
        tracing::info!(upstream, "an upstream is asked again");
    }
}
