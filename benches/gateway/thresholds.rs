//! Thresholds of figures, above which the benchmark fails.

use crate::{
    console::{CALL_PAGE, CALLS_PAGE, VIEWER},
    long_lived,
    measure::{
        BINARY, FIRST, HISTORY, LOW_RATE, alternating, chunk, cpu, one_core, spawn, spawn_cpu,
        tail_latency,
    },
};

/// Upper bound for a figure of one target, absolute or relative to another figure of
/// the same round.
pub(crate) struct Threshold {
    pub(crate) of: FigureOf,
    pub(crate) over: Option<FigureOf>,
    pub(crate) relation: Relation,
    pub(crate) bound: f64,
}

/// A figure of one target.
pub(crate) type FigureOf = (String, &'static str);

#[derive(Clone, Copy)]
pub(crate) enum Relation {
    Ratio,
    Difference,
}

impl Threshold {
    pub(crate) fn name(&self) -> String {
        let (figure, of) = &self.of;
        let sign = match self.relation {
            Relation::Ratio => '/',
            Relation::Difference => '−',
        };
        match &self.over {
            None => format!("{figure}: {of}"),
            Some((other, over)) if other == figure => format!("{figure}: {of} {sign} {over}"),
            Some((other, _)) => format!("{of}: {figure} {sign} {other}"),
        }
    }
}

/// Cost of a body ten times as long: linear growth plus half of it.
const MAX_TENFOLD_GROWTH: f64 = 15.0;

/// Cost of a chunk of a long stream, relative to one of a short stream.
const MAX_CHUNK_GROWTH: f64 = 1.2;

/// Cost of a text event of another API, relative to a chunk of Gemini.
const MAX_DIALECT_RATIO: f64 = 1.3;

/// Memory of the live trace without a setting.
const MAX_TRACE_KIB: f64 = 16384.0;

/// Size of `cargo build --release` before the console was added, in MB.
const BINARY_BEFORE_CONSOLE: f64 = 28.7;

pub(crate) fn all() -> Vec<Threshold> {
    let mut thresholds = Thresholds(Vec::new());
    thresholds.no_hooks();
    thresholds.policies();
    thresholds.dialects();
    thresholds.hooks();
    thresholds.memory();
    thresholds.trace();
    thresholds.ratio(alternating("100k"), "recording", "none", 1.03);
    thresholds.growth();
    thresholds.0
}

struct Thresholds(Vec<Threshold>);

impl Thresholds {
    fn add(&mut self, of: FigureOf, over: Option<FigureOf>, relation: Relation, bound: f64) {
        self.0.push(Threshold {
            of,
            over,
            relation,
            bound,
        });
    }

    /// Compares two targets by the same figure.
    fn ratio(&mut self, figure: String, of: &'static str, over: &'static str, bound: f64) {
        self.add(
            (figure.clone(), of),
            Some((figure, over)),
            Relation::Ratio,
            bound,
        );
    }

    fn difference(&mut self, figure: String, of: &'static str, over: &'static str, bound: f64) {
        self.add(
            (figure.clone(), of),
            Some((figure, over)),
            Relation::Difference,
            bound,
        );
    }

    /// Compares two figures of one target.
    fn growth_ratio(&mut self, of: &'static str, [figure, over]: [String; 2], bound: f64) {
        self.add((figure, of), Some((over, of)), Relation::Ratio, bound);
    }

    fn no_hooks(&mut self) {
        for (size, bound) in [("2k", 1.3), ("100k", 1.15), ("1m", 1.15)] {
            self.ratio(cpu(size), "none", "bare", bound);
        }
        for size in ["2k", "100k", "1m"] {
            self.ratio(one_core(size), "none", "bare", 1.25);
        }
        self.ratio(FIRST.to_owned(), "none", "bare", 1.25);
        for size in ["saturated", "paced"] {
            self.ratio(chunk(size), "none", "bare", 1.2);
        }
        for (of, over) in [("shared-rate", "own-rate"), ("shared-limits", "own-limits")] {
            self.difference(one_core("2k"), of, over, 300.0);
        }
    }

    fn policies(&mut self) {
        self.difference(cpu("100k"), "policies", "none", 120.0);
        self.ratio(cpu("100k"), "redact", "lower-bound-redact", 0.65);
        self.growth_ratio("redact", [cpu("100k"), cpu("ascii")], 1.2);
        for size in ["saturated", "paced"] {
            self.ratio(chunk(size), "policies", "lower-bound-policies", 1.2);
            self.ratio(chunk(size), "redact", "lower-bound-redact", 1.2);
        }
    }

    /// Cost of a text event of another API, relative to a chunk of Gemini.
    fn dialects(&mut self) {
        for size in ["anthropic", "responses"] {
            self.growth_ratio("none", [chunk(size), chunk("saturated")], 1.1);
            self.growth_ratio(
                "policies",
                [chunk(size), chunk("saturated")],
                MAX_DIALECT_RATIO,
            );
            self.growth_ratio(
                "redact",
                [chunk(size), chunk("saturated")],
                MAX_DIALECT_RATIO,
            );
        }
    }

    fn hooks(&mut self) {
        for (of, over) in [
            ("http", "lower-bound-http"),
            ("worker", "lower-bound-worker"),
        ] {
            for size in ["2k", "100k", "1m"] {
                self.ratio(cpu(size), of, over, 1.25);
                self.ratio(one_core(size), of, over, 1.25);
            }
        }
        for (language, of, over, bound) in [
            ("bash", "cold-bash", "lower-bound-bash", 1.15),
            ("bash", "heavy-bash", "lower-bound-bash", 1.3),
            ("python3", "cold-python3", "lower-bound-python3", 1.15),
            ("node", "cold-node", "lower-bound-node", 1.15),
        ] {
            self.ratio(spawn(language), of, over, bound);
            self.ratio(spawn_cpu(language), of, over, bound);
        }
        self.difference(LOW_RATE.to_owned(), "warm-python3", "none", 2000.0);
        self.difference(LOW_RATE.to_owned(), "warm-node", "none", 2000.0);
        self.difference(HISTORY.to_owned(), "derived", "none", 1500.0);
    }

    fn memory(&mut self) {
        let mut bound =
            |figure: String, of, bound| self.add((figure, of), None, Relation::Ratio, bound);
        bound(long_lived::IDLE.to_owned(), "none", 20480.0);
        for count in [1000, 5000] {
            bound(long_lived::kib_per_stream(count), "none", 45.0);
            bound(long_lived::kib_per_stream(count), "policies", 80.0);
        }
        bound(long_lived::REMAINING_SHARE.to_owned(), "none", 0.25);
        bound(long_lived::REMAINING_SHARE.to_owned(), "policies", 0.25);
    }

    fn trace(&mut self) {
        self.ratio(alternating("2k"), "none", "no-trace", 1.02);
        self.ratio(alternating("2k"), "policies", "policies-no-trace", 1.02);
        self.ratio(alternating("2k"), "policies-shadow", "policies", 1.1);
        self.ratio(tail_latency("2k"), "policies-shadow", "policies", 1.02);
        self.difference(
            long_lived::kib_per_stream(5000),
            "policies",
            "policies-no-trace",
            MAX_TRACE_KIB / 5000.0,
        );
        let mut bound = |figure: &str, of, bound| {
            self.add((figure.to_owned(), of), None, Relation::Ratio, bound);
        };
        bound(VIEWER, "viewer", 3.0);
        bound(CALLS_PAGE, "console", 20.0);
        bound(CALL_PAGE, "console", 60.0);
        bound(BINARY, "none", BINARY_BEFORE_CONSOLE + 1.5);
    }

    fn growth(&mut self) {
        for of in ["none", "policies", "redact", "after"] {
            self.growth_ratio(of, [chunk("long"), chunk("saturated")], MAX_CHUNK_GROWTH);
        }
        for of in ["none", "policies", "redact", "derived"] {
            for sizes in [["100k", "10k"], ["1m", "100k"], ["10m", "1m"]] {
                self.growth_ratio(of, sizes.map(cpu), MAX_TENFOLD_GROWTH);
            }
        }
    }
}
