//! Command line: the figures to measure, the number of rounds and their length.

use std::time::Duration;

use crate::{
    Result,
    scenarios::{self, Scenario, ShortRun},
    targets::{self, Target, TargetKind},
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
                _ => args.set(word),
            }
        }
        Ok(args)
    }

    fn set(&mut self, word: &str) {
        match word {
            "short" => self.shorten(3, 100),
            "smoke" => self.shorten(0, 0),
            "gate" => self.is_gate = true,
            _ => self.words.push(word.to_owned()),
        }
    }

    fn shorten(&mut self, rounds: usize, milliseconds: u64) {
        self.is_short = true;
        self.rounds = rounds;
        self.time = Duration::from_millis(milliseconds);
    }

    /// Scenarios selected by the named figures and sizes; all if none is named.
    pub(crate) fn scenarios(&self) -> Result<Vec<Scenario>> {
        let mut scenarios = scenarios::all()?;
        let known = |word: &&String| {
            let is_scenario = scenarios
                .iter()
                .any(|scenario| scenario.figure == *word || scenario.size == *word);
            is_scenario || targets::all().iter().any(|target| target.set_up() == *word)
        };
        if let Some(word) = self.words.iter().find(|word| !known(word)) {
            return Err(format!("`{word}` is neither a figure nor a size nor a set-up").into());
        }
        let figures: Vec<&'static str> = scenarios
            .iter()
            .map(|scenario| scenario.figure)
            .filter(|figure| self.is_named(figure))
            .collect();
        let sizes: Vec<&'static str> = scenarios
            .iter()
            .map(|scenario| scenario.size)
            .filter(|size| self.is_named(size))
            .collect();
        scenarios.retain(|scenario| figures.is_empty() || figures.contains(&scenario.figure));
        scenarios.retain(|scenario| sizes.is_empty() || sizes.contains(&scenario.size));
        // A named size is never excluded, and neither are all scenarios of a figure.
        let excluded = if self.is_short {
            ShortRun::Never
        } else {
            ShortRun::Only
        };
        if sizes.is_empty()
            && scenarios
                .iter()
                .any(|scenario| scenario.short_run != excluded)
        {
            scenarios.retain(|scenario| scenario.short_run != excluded);
        }
        Ok(scenarios)
    }

    /// Installed targets of these scenarios: the named ones, and their references.
    pub(crate) fn targets(&self, scenarios: &[Scenario]) -> Vec<Target> {
        let mut all = targets::all();
        let named = all.iter().filter(|target| self.is_named(target.set_up()));
        let named: Vec<String> = named
            .flat_map(|target| {
                target
                    .reference
                    .map(str::to_owned)
                    .into_iter()
                    .chain([target.set_up().to_owned()])
            })
            .collect();
        all.retain(|target| named.is_empty() || named.iter().any(|name| name == target.set_up()));
        all.retain(|target| {
            scenarios
                .iter()
                .any(|scenario| target.participates(scenario))
        });
        for missing in all.extract_if(.., |target| matches!(target.kind, TargetKind::Missing)) {
            println!("{}: not installed", missing.name);
        }
        all
    }

    pub(crate) fn is_due(&self, scenario: &Scenario, round: usize) -> bool {
        round == 0 || !self.is_short || scenario.short_run == ShortRun::EveryRound
    }

    /// Scenarios that start fresh processes need no warm-up, except in a smoke run.
    pub(crate) fn is_warmed(&self, scenario: &Scenario) -> bool {
        self.rounds == 0 || scenario.figure != "rss"
    }

    fn is_named(&self, word: &str) -> bool {
        self.words.iter().any(|named| named == word)
    }
}
