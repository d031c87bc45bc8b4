//! The words of the command line: what is measured, how often and how long.

use std::time::Duration;

use crate::{
    Result,
    contestants::{self, Contestant, Kind},
    scenes::{self, Part, Scene},
};

pub(crate) struct Choice {
    pub(crate) rounds: usize,
    pub(crate) time: Duration,
    /// Whether a broken bound is a failure.
    pub(crate) is_gate: bool,
    is_short: bool,
    /// Words that name figures, sizes and set-ups.
    words: Vec<String>,
}

impl Choice {
    pub(crate) fn parse(words: &[String]) -> Result<Self> {
        let mut choice = Self {
            rounds: 5,
            time: Duration::from_millis(400),
            is_gate: false,
            is_short: false,
            words: Vec::new(),
        };
        for word in words {
            match word.split_once('=') {
                Some(("rounds", rounds)) => choice.rounds = rounds.parse()?,
                Some(("ms", time)) => choice.time = Duration::from_millis(time.parse()?),
                _ => choice.take(word),
            }
        }
        Ok(choice)
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

    /// Those that have a word among figures, if any word is one, and a word among
    /// sizes.
    pub(crate) fn scenes(&self) -> Result<Vec<Scene>> {
        let mut scenes = scenes::all()?;
        let known = |word: &&String| {
            let is_scene = scenes
                .iter()
                .any(|it| it.figure == *word || it.size == *word);
            is_scene || contestants::all().iter().any(|it| it.set_up() == *word)
        };
        if let Some(word) = self.words.iter().find(|it| !known(it)) {
            return Err(format!("`{word}` is no figure, no size and no set-up").into());
        }
        let figures: Vec<&'static str> = scenes
            .iter()
            .map(|it| it.figure)
            .filter(|it| self.says(it))
            .collect();
        let sizes: Vec<&'static str> = scenes
            .iter()
            .map(|it| it.size)
            .filter(|it| self.says(it))
            .collect();
        scenes.retain(|it| figures.is_empty() || figures.contains(&it.figure));
        scenes.retain(|it| sizes.is_empty() || sizes.contains(&it.size));
        // A size that is asked for by name is never left out, nor all of a figure.
        let left_out = if self.is_short {
            Part::Never
        } else {
            Part::Only
        };
        if sizes.is_empty() && scenes.iter().any(|it| it.part != left_out) {
            scenes.retain(|it| it.part != left_out);
        }
        Ok(scenes)
    }

    /// Those that are named and those that they are compared with, as far as they
    /// are there and have a part.
    pub(crate) fn contestants(&self, scenes: &[Scene]) -> Vec<Contestant> {
        let mut all = contestants::all();
        let named = all.iter().filter(|it| self.says(it.set_up()));
        let named: Vec<String> = named
            .flat_map(|it| {
                it.against
                    .map(str::to_owned)
                    .into_iter()
                    .chain([it.set_up().to_owned()])
            })
            .collect();
        all.retain(|it| named.is_empty() || named.iter().any(|name| name == it.set_up()));
        all.retain(|it| scenes.iter().any(|scene| it.takes_part(scene)));
        for missing in all.extract_if(.., |it| matches!(it.kind, Kind::Missing)) {
            println!("{}: not installed", missing.name);
        }
        all
    }

    pub(crate) fn is_due(&self, scene: &Scene, round: usize) -> bool {
        round == 0 || !self.is_short || scene.part == Part::EveryRound
    }

    /// What is measured of fresh processes needs no warming, unless right answers
    /// are all that is wanted.
    pub(crate) fn is_warmed(&self, scene: &Scene) -> bool {
        self.rounds == 0 || scene.figure != "rss"
    }

    fn says(&self, word: &str) -> bool {
        self.words.iter().any(|it| it == word)
    }
}
