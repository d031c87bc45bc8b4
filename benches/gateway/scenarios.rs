//! Scenarios: which figures are measured for which targets.

use std::cell::Cell;

use crate::{
    Result, console,
    load::{self, Workload},
    measure::FigureKind,
    request_bodies::{self, Charset, Conversation},
    upstream,
};

/// Chunks of a fast stream, of a paced one, and of a long one.
const FAST_CHUNKS: usize = 200;
const PACED_CHUNKS: usize = 100;
const LONG_CHUNKS: usize = 5000;

/// Milliseconds from a chunk to the next.
const PACE_MILLIS: u64 = 2;

/// Concurrent streams: fast ones, paced ones and long ones.
const FAST_STREAMS: usize = 8;
const PACED_STREAMS: usize = 16;
const LONG_STREAMS: usize = 2;

pub(crate) struct Scenario {
    /// Name on the command line.
    pub(crate) figure: &'static str,
    pub(crate) size: &'static str,
    pub(crate) short_run: ShortRun,
    pub(crate) kind: FigureKind,
    pub(crate) targets: Vec<&'static str>,
}

/// Participation of a scenario in a short run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ShortRun {
    EveryRound,
    /// Only in the first round.
    Once,
    Never,
    /// In the first round, and never in a full run.
    Only,
}

const HOOK_TARGETS: &[&str] = &["http", "lower-bound-http", "worker", "lower-bound-worker"];
const STREAM_TARGETS: &[&str] = &[
    "bare",
    "nginx",
    "none",
    "policies",
    "lower-bound-policies",
    "redact",
    "lower-bound-redact",
];
/// Other gateways, if their programs are given.
const PEER_TARGETS: &[&str] = &["litellm", "agentgateway"];
const MEMORY_TARGETS: &[&str] = &["bare", "none", "policies"];
const UNTRACED_TARGETS: &[&str] = &["policies-no-trace"];
const GROWTH_TARGETS: &[&str] = &["bare", "none", "policies", "redact", "derived"];

pub(crate) fn all() -> Result<Vec<Scenario>> {
    let mut scenarios = Scenarios(Vec::new());
    scenarios.requests()?;
    scenarios.streams()?;
    scenarios.processes()?;
    scenarios.growth()?;
    scenarios.trace()?;
    Ok(scenarios.0)
}

struct Scenarios(Vec<Scenario>);

impl Scenarios {
    fn add(
        &mut self,
        [figure, size]: [&'static str; 2],
        short_run: ShortRun,
        kind: FigureKind,
        targets: &[&[&'static str]],
    ) {
        let targets = targets.concat();
        self.0.push(Scenario {
            figure,
            size,
            short_run,
            kind,
            targets,
        });
    }

    fn requests(&mut self) -> Result<()> {
        for (size, bytes, short_run) in [
            ("2k", 2 << 10, ShortRun::EveryRound),
            ("100k", 100 << 10, ShortRun::Never),
            ("1m", 1 << 20, ShortRun::Never),
        ] {
            let workload = Workload::unary(&request_bodies::body(bytes, Charset::Any)?);
            self.add(
                ["cpu", size],
                ShortRun::EveryRound,
                FigureKind::Cpu(workload.clone()),
                &[STREAM_TARGETS, PEER_TARGETS, HOOK_TARGETS, &["derived"]],
            );
            self.add(
                ["p50", size],
                short_run,
                FigureKind::OneCore(workload.clone()),
                &[&["direct"], STREAM_TARGETS, PEER_TARGETS, HOOK_TARGETS],
            );
            self.add(
                ["rps", size],
                short_run,
                FigureKind::Rate(workload),
                &[&["direct"], STREAM_TARGETS, PEER_TARGETS, HOOK_TARGETS],
            );
        }
        let small = Workload::unary(&request_bodies::body(2 << 10, Charset::Any)?);
        self.add(
            ["limits", "2k"],
            ShortRun::EveryRound,
            FigureKind::OneCore(small),
            &[&["own-rate", "shared-rate", "own-limits", "shared-limits"]],
        );
        let ascii = Workload::unary(&request_bodies::body(100 << 10, Charset::Ascii)?);
        self.add(
            ["cpu", "ascii"],
            ShortRun::EveryRound,
            FigureKind::Cpu(ascii),
            &[&["redact", "lower-bound-redact"]],
        );
        Ok(())
    }

    fn streams(&mut self) -> Result<()> {
        let small = request_bodies::body(2 << 10, Charset::Any)?;
        let one = Workload::stream(&small, 1, 0);
        let mut chunks = |size, short_run, many, streams, targets: &[&[&'static str]]| {
            let one = one.clone();
            self.add(
                ["chunks", size],
                short_run,
                FigureKind::Chunks { one, many, streams },
                targets,
            );
        };
        let fast = Workload::stream(&small, FAST_CHUNKS, 0);
        chunks(
            "saturated",
            ShortRun::EveryRound,
            fast,
            FAST_STREAMS,
            &[STREAM_TARGETS, PEER_TARGETS, &["after"]],
        );
        let paced = Workload::stream(&small, PACED_CHUNKS, PACE_MILLIS);
        chunks(
            "paced",
            ShortRun::EveryRound,
            paced,
            PACED_STREAMS,
            &[STREAM_TARGETS, &["after"]],
        );
        let long = Workload::stream(&small, LONG_CHUNKS, 0);
        chunks(
            "long",
            ShortRun::Never,
            long,
            LONG_STREAMS,
            &[&["bare", "none", "policies", "redact", "after"]],
        );
        self.streams_of_other_apis();
        let first = FigureKind::First(Workload::stream(&small, 10, 1));
        self.add(
            ["first", "paced"],
            ShortRun::EveryRound,
            first,
            &[&["direct"], STREAM_TARGETS, PEER_TARGETS],
        );
        for (size, short_run, counts, untraced) in [
            ("1000", ShortRun::Only, [1000].as_slice(), [].as_slice()),
            ("5000", ShortRun::Never, &[1000, 5000], UNTRACED_TARGETS),
        ] {
            let kind = FigureKind::Streams {
                body: small.clone(),
                counts,
            };
            self.add(["rss", size], short_run, kind, &[MEMORY_TARGETS, untraced]);
        }
        Ok(())
    }

    fn streams_of_other_apis(&mut self) {
        for (size, format) in [
            ("anthropic", upstream::WireFormat::Anthropic),
            ("responses", upstream::WireFormat::Responses),
        ] {
            let (one, many) = (
                Workload::stream_of(format, 1),
                Workload::stream_of(format, FAST_CHUNKS),
            );
            let streams = FAST_STREAMS;
            let kind = FigureKind::Chunks { one, many, streams };
            let targets: &[&[&'static str]] = &[&["none", "policies", "redact"]];
            self.add(["chunks", size], ShortRun::EveryRound, kind, targets);
        }
    }

    fn processes(&mut self) -> Result<()> {
        let workload = Workload::unary(&request_bodies::body(2 << 10, Charset::Any)?);
        let mut spawn = |size, short_run, targets: &[&'static str]| {
            let kind = FigureKind::Spawn {
                workload: workload.clone(),
                is_heavy: size == "bash",
            };
            self.add(["spawn", size], short_run, kind, &[targets]);
        };
        spawn(
            "bash",
            ShortRun::EveryRound,
            &["cold-bash", "lower-bound-bash", "heavy-bash"],
        );
        spawn(
            "python3",
            ShortRun::EveryRound,
            &["cold-python3", "lower-bound-python3"],
        );
        spawn("node", ShortRun::Once, &["cold-node", "lower-bound-node"]);
        self.add(
            ["warm", "2k"],
            ShortRun::Once,
            FigureKind::LowRate(workload),
            &[&["none", "warm-python3", "warm-node"]],
        );
        Ok(())
    }

    fn trace(&mut self) -> Result<()> {
        let small = request_bodies::body(2 << 10, Charset::Any)?;
        let workload = Workload::unary(&small);
        self.add(
            ["trace", "2k"],
            ShortRun::EveryRound,
            FigureKind::Alternating(workload.clone()),
            &[&[
                "none",
                "no-trace",
                "policies",
                "policies-no-trace",
                "policies-shadow",
            ]],
        );
        self.add(
            ["p99", "2k"],
            ShortRun::Never,
            FigureKind::TailLatency(workload.clone()),
            &[&["policies", "policies-shadow"]],
        );
        let large = Workload::unary(&request_bodies::body(100 << 10, Charset::Any)?);
        self.add(
            ["record", "100k"],
            ShortRun::EveryRound,
            FigureKind::Alternating(large),
            &[&["none", "recording"]],
        );
        self.add(
            ["viewer", "2k"],
            ShortRun::EveryRound,
            FigureKind::Viewer(workload.clone()),
            &[&["viewer"]],
        );
        let mut conversation = Conversation::of(1 << 20);
        conversation.continue_conversation(upstream::ANSWER, console::SECRET);
        let large = load::request(
            &format!("{}:generateContent", upstream::LARGE),
            conversation.to_string().as_bytes(),
        );
        self.add(
            ["pages", "1m"],
            ShortRun::Once,
            FigureKind::Pages {
                calls: workload,
                large,
            },
            &[&["console"]],
        );
        self.add(
            ["binary", "file"],
            ShortRun::Once,
            FigureKind::Binary,
            &[&["none"]],
        );
        Ok(())
    }

    fn growth(&mut self) -> Result<()> {
        let history = FigureKind::History(Conversation::of(1 << 20), Cell::new(0));
        self.add(
            ["history", "1m"],
            ShortRun::Once,
            history,
            &[&["bare", "none", "derived"]],
        );
        for (size, bytes) in [("10k", 10 << 10), ("10m", 10 << 20)] {
            let workload = Workload::unary(&request_bodies::body(bytes, Charset::Any)?);
            self.add(
                ["growth", size],
                ShortRun::Never,
                FigureKind::Cpu(workload),
                &[GROWTH_TARGETS],
            );
        }
        Ok(())
    }
}
