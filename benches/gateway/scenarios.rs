//! Scenarios: which figures are measured for which targets.

use std::cell::Cell;

use crate::{
    Result, console,
    load::{self, Workload},
    measure::Kind,
    request_bodies::{self, Conversation, Letters},
    upstream,
};

/// Chunks of a stream that is fast, of one that has a pace, and of a long one.
const FAST_CHUNKS: usize = 200;
const PACED_CHUNKS: usize = 100;
const LONG_CHUNKS: usize = 5000;

/// Milliseconds from a chunk to the next.
const PACE: u64 = 2;

/// Streams at the same time: of fast ones, paced ones and long ones.
const FAST_STREAMS: usize = 8;
const PACED_STREAMS: usize = 16;
const LONG_STREAMS: usize = 2;

pub(crate) struct Scenario {
    /// Name on the command line.
    pub(crate) figure: &'static str,
    pub(crate) size: &'static str,
    pub(crate) part: Part,
    pub(crate) kind: Kind,
    pub(crate) targets: Vec<&'static str>,
}

/// Which part a scene has in a short run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    EveryRound,
    /// One round is enough.
    Once,
    Never,
    /// One round of it, and it has none in a full run.
    Only,
}

const HOOKS: &[&str] = &["http", "lower-bound-http", "worker", "lower-bound-worker"];
const STREAMED: &[&str] = &[
    "bare",
    "nginx",
    "none",
    "policies",
    "lower-bound-policies",
    "redact",
    "lower-bound-redact",
];
/// Gateways of others, if their programs are given.
const PEERS: &[&str] = &["litellm", "agentgateway"];
const STREAMS_HELD: &[&str] = &["bare", "none", "policies"];
const GROWING: &[&str] = &["bare", "none", "policies", "redact", "derived"];

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
        part: Part,
        kind: Kind,
        targets: &[&[&'static str]],
    ) {
        let targets = targets.concat();
        self.0.push(Scenario {
            figure,
            size,
            part,
            kind,
            targets,
        });
    }

    fn requests(&mut self) -> Result<()> {
        for (size, bytes, part) in [
            ("2k", 2 << 10, Part::EveryRound),
            ("100k", 100 << 10, Part::Never),
            ("1m", 1 << 20, Part::Never),
        ] {
            let ask = Workload::unary(&request_bodies::body(bytes, Letters::Any)?);
            self.add(
                ["cpu", size],
                Part::EveryRound,
                Kind::Cpu(ask.clone()),
                &[STREAMED, PEERS, HOOKS, &["derived"]],
            );
            self.add(
                ["p50", size],
                part,
                Kind::OneCore(ask.clone()),
                &[&["direct"], STREAMED, PEERS, HOOKS],
            );
            self.add(
                ["rps", size],
                part,
                Kind::Rate(ask),
                &[&["direct"], STREAMED, PEERS, HOOKS],
            );
        }
        let small = Workload::unary(&request_bodies::body(2 << 10, Letters::Any)?);
        self.add(
            ["limits", "2k"],
            Part::EveryRound,
            Kind::OneCore(small),
            &[&["own-rate", "shared-rate", "own-limits", "shared-limits"]],
        );
        let ascii = Workload::unary(&request_bodies::body(100 << 10, Letters::Ascii)?);
        self.add(
            ["cpu", "ascii"],
            Part::EveryRound,
            Kind::Cpu(ascii),
            &[&["redact", "lower-bound-redact"]],
        );
        Ok(())
    }

    fn streams(&mut self) -> Result<()> {
        let small = request_bodies::body(2 << 10, Letters::Any)?;
        let one = Workload::stream(&small, 1, 0);
        let mut chunks = |size, part, many, streams, targets: &[&[&'static str]]| {
            let one = one.clone();
            self.add(
                ["chunks", size],
                part,
                Kind::Chunks { one, many, streams },
                targets,
            );
        };
        let fast = Workload::stream(&small, FAST_CHUNKS, 0);
        chunks(
            "saturated",
            Part::EveryRound,
            fast,
            FAST_STREAMS,
            &[STREAMED, PEERS, &["after"]],
        );
        let paced = Workload::stream(&small, PACED_CHUNKS, PACE);
        chunks(
            "paced",
            Part::EveryRound,
            paced,
            PACED_STREAMS,
            &[STREAMED, &["after"]],
        );
        let long = Workload::stream(&small, LONG_CHUNKS, 0);
        chunks(
            "long",
            Part::Never,
            long,
            LONG_STREAMS,
            &[&["bare", "none", "policies", "redact", "after"]],
        );
        self.streams_of_other_apis();
        let first = Kind::First(Workload::stream(&small, 10, 1));
        self.add(
            ["first", "paced"],
            Part::EveryRound,
            first,
            &[&["direct"], STREAMED, PEERS],
        );
        for (size, part, counts, traceless) in [
            ("1000", Part::Only, [1000].as_slice(), [].as_slice()),
            ("5000", Part::Never, &[1000, 5000], &["policies-no-trace"]),
        ] {
            let kind = Kind::Streams {
                body: small.clone(),
                counts,
            };
            self.add(["rss", size], part, kind, &[STREAMS_HELD, traceless]);
        }
        Ok(())
    }

    fn streams_of_other_apis(&mut self) {
        for (size, wire) in [
            ("anthropic", upstream::Wire::Anthropic),
            ("responses", upstream::Wire::Responses),
        ] {
            let (one, many) = (
                Workload::stream_of(wire, 1),
                Workload::stream_of(wire, FAST_CHUNKS),
            );
            let streams = FAST_STREAMS;
            let kind = Kind::Chunks { one, many, streams };
            let targets: &[&[&'static str]] = &[&["none", "policies", "redact"]];
            self.add(["chunks", size], Part::EveryRound, kind, targets);
        }
    }

    fn processes(&mut self) -> Result<()> {
        let ask = Workload::unary(&request_bodies::body(2 << 10, Letters::Any)?);
        let mut spawn = |size, part, targets: &[&'static str]| {
            let kind = Kind::Spawn {
                ask: ask.clone(),
                is_heavy: size == "bash",
            };
            self.add(["spawn", size], part, kind, &[targets]);
        };
        spawn(
            "bash",
            Part::EveryRound,
            &["cold-bash", "lower-bound-bash", "heavy-bash"],
        );
        spawn(
            "python3",
            Part::EveryRound,
            &["cold-python3", "lower-bound-python3"],
        );
        spawn("node", Part::Once, &["cold-node", "lower-bound-node"]);
        self.add(
            ["warm", "2k"],
            Part::Once,
            Kind::Calm(ask),
            &[&["none", "warm-python3", "warm-node"]],
        );
        Ok(())
    }

    fn trace(&mut self) -> Result<()> {
        let small = request_bodies::body(2 << 10, Letters::Any)?;
        let ask = Workload::unary(&small);
        self.add(
            ["trace", "2k"],
            Part::EveryRound,
            Kind::Alternating(ask.clone()),
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
            Part::Never,
            Kind::Slowest(ask.clone()),
            &[&["policies", "policies-shadow"]],
        );
        let large = Workload::unary(&request_bodies::body(100 << 10, Letters::Any)?);
        self.add(
            ["record", "100k"],
            Part::EveryRound,
            Kind::Alternating(large),
            &[&["none", "recording"]],
        );
        self.add(
            ["viewer", "2k"],
            Part::EveryRound,
            Kind::Viewer(ask.clone()),
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
            Part::Once,
            Kind::Pages { ask, large },
            &[&["console"]],
        );
        self.add(["binary", "file"], Part::Once, Kind::Binary, &[&["none"]]);
        Ok(())
    }

    fn growth(&mut self) -> Result<()> {
        let history = Kind::History(Conversation::of(1 << 20), Cell::new(0));
        self.add(
            ["history", "1m"],
            Part::Once,
            history,
            &[&["bare", "none", "derived"]],
        );
        for (size, bytes) in [("10k", 10 << 10), ("10m", 10 << 20)] {
            let ask = Workload::unary(&request_bodies::body(bytes, Letters::Any)?);
            self.add(["growth", size], Part::Never, Kind::Cpu(ask), &[GROWING]);
        }
        Ok(())
    }
}
