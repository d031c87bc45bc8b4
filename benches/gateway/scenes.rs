//! What is measured of whom.

use std::cell::Cell;

use crate::{
    Result,
    bodies::{self, Conversation, Letters},
    load::Ask,
    measure::Kind,
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

pub(crate) struct Scene {
    /// By which it is chosen on the command line.
    pub(crate) figure: &'static str,
    pub(crate) size: &'static str,
    pub(crate) part: Part,
    pub(crate) kind: Kind,
    pub(crate) contestants: Vec<&'static str>,
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

const HOOKS: &[&str] = &["http", "floor-http", "worker", "floor-worker"];
const STREAMED: &[&str] = &[
    "bare",
    "nginx",
    "none",
    "policies",
    "floor-policies",
    "redact",
    "floor-redact",
];
const GROWING: &[&str] = &["bare", "none", "policies", "redact", "derived"];

pub(crate) fn all() -> Result<Vec<Scene>> {
    let mut scenes = Scenes(Vec::new());
    scenes.requests()?;
    scenes.streams()?;
    scenes.processes()?;
    scenes.growth()?;
    Ok(scenes.0)
}

struct Scenes(Vec<Scene>);

impl Scenes {
    fn add(
        &mut self,
        [figure, size]: [&'static str; 2],
        part: Part,
        kind: Kind,
        contestants: &[&[&'static str]],
    ) {
        let contestants = contestants.concat();
        self.0.push(Scene {
            figure,
            size,
            part,
            kind,
            contestants,
        });
    }

    fn requests(&mut self) -> Result<()> {
        for (size, bytes, part) in [
            ("2k", 2 << 10, Part::EveryRound),
            ("100k", 100 << 10, Part::Never),
            ("1m", 1 << 20, Part::Never),
        ] {
            let ask = Ask::unary(&bodies::body(bytes, Letters::Any)?);
            self.add(
                ["cpu", size],
                Part::EveryRound,
                Kind::Cpu(ask.clone()),
                &[STREAMED, HOOKS, &["derived"]],
            );
            self.add(
                ["p50", size],
                part,
                Kind::OneCore(ask.clone()),
                &[&["direct"], STREAMED, HOOKS],
            );
            self.add(
                ["rps", size],
                part,
                Kind::Rate(ask),
                &[&["direct"], STREAMED, HOOKS],
            );
        }
        let ascii = Ask::unary(&bodies::body(100 << 10, Letters::Ascii)?);
        self.add(
            ["cpu", "ascii"],
            Part::EveryRound,
            Kind::Cpu(ascii),
            &[&["redact", "floor-redact"]],
        );
        Ok(())
    }

    fn streams(&mut self) -> Result<()> {
        let small = bodies::body(2 << 10, Letters::Any)?;
        let one = Ask::stream(&small, 1, 0);
        let mut chunks = |size, part, many, streams, contestants: &[&[&'static str]]| {
            let one = one.clone();
            self.add(
                ["chunks", size],
                part,
                Kind::Chunks { one, many, streams },
                contestants,
            );
        };
        let fast = Ask::stream(&small, FAST_CHUNKS, 0);
        chunks(
            "saturated",
            Part::EveryRound,
            fast,
            FAST_STREAMS,
            &[STREAMED, &["after"]],
        );
        let paced = Ask::stream(&small, PACED_CHUNKS, PACE);
        chunks(
            "paced",
            Part::EveryRound,
            paced,
            PACED_STREAMS,
            &[STREAMED, &["after"]],
        );
        let long = Ask::stream(&small, LONG_CHUNKS, 0);
        chunks(
            "long",
            Part::Never,
            long,
            LONG_STREAMS,
            &[&["bare", "none", "policies", "redact", "after"]],
        );
        let first = Kind::First(Ask::stream(&small, 10, 1));
        self.add(
            ["first", "paced"],
            Part::EveryRound,
            first,
            &[&["direct"], STREAMED],
        );
        for (size, part, counts) in [
            ("1000", Part::Only, [1000].as_slice()),
            ("5000", Part::Never, &[1000, 5000]),
        ] {
            let kind = Kind::Streams {
                body: small.clone(),
                counts,
            };
            self.add(["rss", size], part, kind, &[&["bare", "none", "policies"]]);
        }
        Ok(())
    }

    fn processes(&mut self) -> Result<()> {
        let ask = Ask::unary(&bodies::body(2 << 10, Letters::Any)?);
        let mut spawn = |size, part, contestants: &[&'static str]| {
            let kind = Kind::Spawn {
                ask: ask.clone(),
                is_heavy: size == "bash",
            };
            self.add(["spawn", size], part, kind, &[contestants]);
        };
        spawn(
            "bash",
            Part::EveryRound,
            &["cold-bash", "floor-bash", "heavy-bash"],
        );
        spawn(
            "python3",
            Part::EveryRound,
            &["cold-python3", "floor-python3"],
        );
        spawn("node", Part::Once, &["cold-node", "floor-node"]);
        self.add(
            ["warm", "2k"],
            Part::Once,
            Kind::Calm(ask),
            &[&["none", "warm-python3", "warm-node"]],
        );
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
            let ask = Ask::unary(&bodies::body(bytes, Letters::Any)?);
            self.add(["growth", size], Part::Never, Kind::Cpu(ask), &[GROWING]);
        }
        Ok(())
    }
}
