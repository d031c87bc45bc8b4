//! Command line: the figures to measure, the number of rounds and their length.

use std::time::Duration;

use crate::{
    Result,
    scenarios::{self, Part, Scenario},
    targets::{self, Kind, Target},
};

pub(crate) struct Args {
    pub(crate) rounds: usize,
    pub(crate) time: Duration,
    /// Fails the run if a threshold is exceeded.
    pub(crate) is_gate: bool,
    is_short: bool,
    /// Names of figures, sizes and set-ups.
    words: Vec<String>,
}

impl Args {
    pub(crate) fn parse(words: &[String]) -> Result<Self> {
        let mut args = Self {
            rounds: 5,
            time: Duration::from_millis(400),
            is_gate: false,
            is_short: false,
            words: Vec::new(),
        };
        for word in words {
            match word.split_once('=') {
                Some(("rounds", rounds)) => args.rounds = rounds.parse()?,
                Some(("ms", time)) => args.time = Duration::from_millis(time.parse()?),
                _ => args.take(word),
            }
        }
        Ok(args)
    }

    fn take(&mut self, word: &str) {
        match word {
            "short" => self.last(3, 100),
            "smoke" => self.last(0, 0),
            "gate" => self.is_gate = true,
            _ => self.words.push(word.to_owned()),
        }
    }

    fn last(&mut self, rounds: usize, milliseconds: u64) {
        self.is_short = true;
        self.rounds = rounds;
        self.time = Duration::from_millis(milliseconds);
    }

    /// Scenarios selected by the named figures and sizes; all if none is named.
    pub(crate) fn scenarios(&self) -> Result<Vec<Scenario>> {
        let mut scenarios = scenarios::all()?;
        let known = |word: &&String| {
            let is_scene = scenarios
                .iter()
                .any(|it| it.figure == *word || it.size == *word);
            is_scene || targets::all().iter().any(|it| it.set_up() == *word)
        };
        if let Some(word) = self.words.iter().find(|it| !known(it)) {
            return Err(format!("`{word}` is no figure, no size and no set-up").into());
        }
        let figures: Vec<&'static str> = scenarios
            .iter()
            .map(|it| it.figure)
            .filter(|it| self.names(it))
            .collect();
        let sizes: Vec<&'static str> = scenarios
            .iter()
            .map(|it| it.size)
            .filter(|it| self.names(it))
            .collect();
        scenarios.retain(|it| figures.is_empty() || figures.contains(&it.figure));
        scenarios.retain(|it| sizes.is_empty() || sizes.contains(&it.size));
        // A size that is named is never skipped, nor all of a figure.
        let left_out = if self.is_short {
            Part::Never
        } else {
            Part::Only
        };
        if sizes.is_empty() && scenarios.iter().any(|it| it.part != left_out) {
            scenarios.retain(|it| it.part != left_out);
        }
        Ok(scenarios)
    }

    /// Installed targets of these scenarios: those named, and their references.
    pub(crate) fn targets(&self, scenarios: &[Scenario]) -> Vec<Target> {
        let mut all = targets::all();
        let named = all.iter().filter(|it| self.names(it.set_up()));
        let named: Vec<String> = named
            .flat_map(|it| {
                it.against
                    .map(str::to_owned)
                    .into_iter()
                    .chain([it.set_up().to_owned()])
            })
            .collect();
        all.retain(|it| named.is_empty() || named.iter().any(|name| name == it.set_up()));
        all.retain(|it| scenarios.iter().any(|scenario| it.takes_part(scenario)));
        for missing in all.extract_if(.., |it| matches!(it.kind, Kind::Missing)) {
            println!("{}: not installed", missing.name);
        }
        all
    }

    pub(crate) fn is_due(&self, scenario: &Scenario, round: usize) -> bool {
        round == 0 || !self.is_short || scenario.part == Part::EveryRound
    }

    /// Scenarios that start fresh processes need no warm-up, except in a smoke run.
    pub(crate) fn is_warmed(&self, scenario: &Scenario) -> bool {
        self.rounds == 0 || scenario.figure != "rss"
    }

    fn names(&self, word: &str) -> bool {
        self.words.iter().any(|it| it == word)
    }
}
