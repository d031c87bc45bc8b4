//! What came of the rounds: a table of figures, and the bounds that they are held
//! to.

use std::collections::BTreeMap;

use crate::scenes::{FIRST_LABEL, Value, chunk_label, cpu_label, one_core_label};

/// Values of each figure and contestant, round by round.
#[derive(Default)]
pub(crate) struct Report {
    /// Figures in the order of their first value.
    figures: Vec<String>,
    contestants: Vec<&'static str>,
    values: BTreeMap<(String, &'static str), Vec<f64>>,
}

/// A bound for a figure of one contestant, compared with another figure of the
/// same round.
struct Gate {
    of: (String, &'static str),
    over: (String, &'static str),
    relation: Relation,
    bound: f64,
}

enum Relation {
    Ratio,
    Difference,
}

impl Report {
    pub(crate) fn new(contestants: Vec<&'static str>) -> Self {
        Self {
            contestants,
            ..Self::default()
        }
    }

    pub(crate) fn add(&mut self, contestant: &'static str, values: Vec<Value>) {
        for (figure, value) in values {
            if !self.figures.contains(&figure) {
                self.figures.push(figure.clone());
            }
            self.values
                .entry((figure, contestant))
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
        for gate in gates() {
            let of = self.of(&gate.of.0, gate.of.1);
            let over = self.of(&gate.over.0, gate.over.1);
            let (Some(of), Some(over)) = (of, over) else {
                continue;
            };
            let values = match gate.relation {
                Relation::Ratio => ratio(of, over),
                Relation::Difference => pairs(of, over, |of, over| of - over),
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

    fn of(&self, figure: &str, contestant: &'static str) -> Option<&[f64]> {
        let values = self.values.get(&(figure.to_owned(), contestant));
        values.map(Vec::as_slice)
    }
}

impl Gate {
    fn name(&self) -> String {
        let ((figure, of), (other, over)) = (&self.of, &self.over);
        let sign = match self.relation {
            Relation::Ratio => '/',
            Relation::Difference => '−',
        };
        if figure == other {
            format!("{figure}: {of} {sign} {over}")
        } else {
            format!("{of}: {figure} {sign} {other}")
        }
    }
}

/// The bounds, in the order of the figures.
fn gates() -> Vec<Gate> {
    let mut gates = Vec::new();
    let mut ratio = |figure: String, of, over, bound| {
        gates.push(Gate {
            of: (figure.clone(), of),
            over: (figure, over),
            relation: Relation::Ratio,
            bound,
        });
    };
    ratio(cpu_label("2k"), "none", "bare", 1.3);
    ratio(cpu_label("100k"), "none", "bare", 1.15);
    ratio(cpu_label("1m"), "none", "bare", 1.15);
    for size in ["2k", "100k", "1m"] {
        ratio(one_core_label(size), "none", "bare", 1.25);
    }
    ratio(FIRST_LABEL.to_owned(), "none", "bare", 1.25);
    for pace in ["saturated", "paced"] {
        ratio(chunk_label(pace), "none", "bare", 1.2);
        ratio(chunk_label(pace), "policies", "floor-policies", 1.2);
        ratio(chunk_label(pace), "redact", "floor-redact", 1.2);
    }
    ratio(cpu_label("100k"), "redact", "floor-redact", 0.65);
    for size in ["2k", "100k", "1m"] {
        for (of, over) in [("http", "floor-http"), ("worker", "floor-worker")] {
            ratio(cpu_label(size), of, over, 1.25);
            ratio(one_core_label(size), of, over, 1.25);
        }
    }
    gates.push(Gate {
        of: (cpu_label("100k"), "policies"),
        over: (cpu_label("100k"), "none"),
        relation: Relation::Difference,
        bound: 120.0,
    });
    gates.push(Gate {
        of: (cpu_label("100k"), "redact"),
        over: (cpu_label("ascii"), "redact"),
        relation: Relation::Ratio,
        bound: 1.2,
    });
    gates
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
