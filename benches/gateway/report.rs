//! What came of the rounds: a table of figures, and the bounds that they are held
//! to.

use std::collections::BTreeMap;

use crate::{
    gates::{self, Relation},
    measure::Value,
};

/// Values of each figure and contestant, round by round.
#[derive(Default)]
pub(crate) struct Report {
    /// Figures in the order of their first value.
    figures: Vec<String>,
    contestants: Vec<String>,
    values: BTreeMap<(String, String), Vec<f64>>,
}

impl Report {
    pub(crate) fn new(contestants: Vec<String>) -> Self {
        Self {
            contestants,
            ..Self::default()
        }
    }

    pub(crate) fn add(&mut self, contestant: &str, values: Vec<Value>) {
        for (figure, value) in values {
            if !self.figures.contains(&figure) {
                self.figures.push(figure.clone());
            }
            self.values
                .entry((figure, contestant.to_owned()))
                .or_default()
                .push(value);
        }
    }

    pub(crate) fn table(&self) -> String {
        let mut rows = vec![
            "| figure | set-up | min | median | max | over bare |".to_owned(),
            "|---|---|--:|--:|--:|--:|".to_owned(),
        ];
        for figure in &self.figures {
            let bare = self.of(figure, "bare");
            let all = self.contestants.iter();
            for (name, values) in all.filter_map(|it| Some((it, self.of(figure, it)?))) {
                let over = bare.map(|bare| format!("{:.2}", median(&ratio(values, bare))));
                let over = over.unwrap_or_default();
                rows.push(format!(
                    "| {figure} | {name} | {} | {over} |",
                    spread(values)
                ));
            }
        }
        rows.join("\n")
    }

    /// A table of bounds, and whether all are kept.
    pub(crate) fn gates(&self) -> (String, bool) {
        let mut rows = vec![
            "| gate | min | median | max | bound | |".to_owned(),
            "|---|--:|--:|--:|--:|---|".to_owned(),
        ];
        let mut all_good = true;
        for gate in gates::all() {
            let Some(of) = self.of(&gate.of.0, gate.of.1) else {
                continue;
            };
            let over = gate.over.as_ref().map(|it| self.of(&it.0, it.1));
            let values = match (over, gate.relation) {
                (None, _) => of.to_vec(),
                (Some(None), _) => continue,
                (Some(Some(over)), Relation::Ratio) => ratio(of, over),
                (Some(Some(over)), Relation::Difference) => pairs(of, over, |of, over| of - over),
            };
            // A figure that is no number is no good one.
            let is_good = median(&values) <= gate.bound;
            all_good &= is_good;
            let sign = if is_good { "ok" } else { "**OVER**" };
            let (name, spread) = (gate.name(), spread(&values));
            rows.push(format!("| {name} | {spread} | {} | {sign} |", gate.bound));
        }
        (rows.join("\n"), all_good)
    }

    fn of(&self, figure: &str, contestant: &str) -> Option<&[f64]> {
        let values = self.values.get(&(figure.to_owned(), contestant.to_owned()));
        values.map(Vec::as_slice)
    }
}

/// What two have in the same rounds.
fn pairs(of: &[f64], over: &[f64], relation: impl Fn(f64, f64) -> f64) -> Vec<f64> {
    of.iter()
        .zip(over)
        .map(|(of, over)| relation(*of, *over))
        .collect()
}

fn ratio(of: &[f64], over: &[f64]) -> Vec<f64> {
    pairs(of, over, |of, over| of / over)
}

fn spread(values: &[f64]) -> String {
    let all = [least(values), median(values), most(values)];
    all.map(shown).join(" | ")
}

fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn least(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::INFINITY, f64::min)
}

fn most(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

fn shown(value: f64) -> String {
    if value.abs() < 100.0 {
        format!("{value:.2}")
    } else {
        format!("{value:.0}")
    }
}
