//! Report of all rounds: a table of figures, and the thresholds.

use std::collections::BTreeMap;

use crate::{
    measure::Value,
    thresholds::{self, Relation},
};

/// Values of each figure and target, round by round.
#[derive(Default)]
pub(crate) struct Report {
    /// Figures in the order of their first value.
    figures: Vec<String>,
    targets: Vec<String>,
    values: BTreeMap<(String, String), Vec<f64>>,
}

impl Report {
    pub(crate) fn new(targets: Vec<String>) -> Self {
        Self {
            targets,
            ..Self::default()
        }
    }

    pub(crate) fn add(&mut self, target: &str, values: Vec<Value>) {
        for (figure, value) in values {
            if !self.figures.contains(&figure) {
                self.figures.push(figure.clone());
            }
            self.values
                .entry((figure, target.to_owned()))
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
            let all = self.targets.iter();
            for (name, values) in all.filter_map(|name| Some((name, self.of(figure, name)?))) {
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

    /// A table of the thresholds, and true if all are met.
    pub(crate) fn thresholds(&self) -> (String, bool) {
        let mut rows = vec![
            "| gate | min | median | max | bound | |".to_owned(),
            "|---|--:|--:|--:|--:|---|".to_owned(),
        ];
        let mut all_met = true;
        for threshold in thresholds::all() {
            let Some(of) = self.of(&threshold.of.0, threshold.of.1) else {
                continue;
            };
            let over = threshold.over.as_ref().map(|over| self.of(&over.0, over.1));
            let values = match (over, threshold.relation) {
                (None, _) => of.to_vec(),
                (Some(None), _) => continue,
                (Some(Some(over)), Relation::Ratio) => ratio(of, over),
                (Some(Some(over)), Relation::Difference) => pairs(of, over, |of, over| of - over),
            };
            // NaN is not below any bound.
            let is_met = median(&values) <= threshold.bound;
            all_met &= is_met;
            let sign = if is_met { "ok" } else { "**OVER**" };
            let (name, spread) = (threshold.name(), spread(&values));
            rows.push(format!(
                "| {name} | {spread} | {} | {sign} |",
                threshold.bound
            ));
        }
        (rows.join("\n"), all_met)
    }

    fn of(&self, figure: &str, target: &str) -> Option<&[f64]> {
        let values = self.values.get(&(figure.to_owned(), target.to_owned()));
        values.map(Vec::as_slice)
    }
}

/// Values of two figures in the same rounds, combined.
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
    let all = [minimum(values), median(values), maximum(values)];
    all.map(formatted).join(" | ")
}

fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn minimum(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::INFINITY, f64::min)
}

fn maximum(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

fn formatted(value: f64) -> String {
    if value.abs() < 100.0 {
        format!("{value:.2}")
    } else {
        format!("{value:.0}")
    }
}
