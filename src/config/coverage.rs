//! Which methods of the model APIs pass although hookgate does not see their
//! content.

use schemars::JsonSchema;
use serde::Deserialize;

use super::schema_errors::did_you_mean;

/// Which methods pass by name.
#[derive(Debug, Clone, Default)]
pub struct CoverageSettings {
    /// Names such as `files.create`, and families such as `files.*`.
    pub allow: Vec<String>,
}

/// A method of a model API, as far as the config is concerned.
#[derive(Debug, Clone, Copy)]
pub struct KnownMethod {
    /// Its name.
    pub name: &'static str,
    /// Why it cannot be allowed, if it cannot: the rest of a sentence that begins
    /// with its name.
    pub never: Option<&'static str>,
}

/// Which methods of the model APIs pass although hookgate does not see their
/// content.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Coverage")]
pub(super) struct RawCoverage {
    /// Their names, such as `files.create`, or `files.*` for all that begin so.
    allow: Vec<String>,
}

impl From<RawCoverage> for CoverageSettings {
    fn from(raw: RawCoverage) -> Self {
        Self { allow: raw.allow }
    }
}

impl CoverageSettings {
    /// Whether this method is allowed.
    pub fn allows(&self, name: &str) -> bool {
        self.allow.iter().any(|it| covers(it, name))
    }

    /// What is wrong with its entries, by their positions.
    pub(super) fn wrong(&self, known: &[KnownMethod]) -> Vec<(usize, String)> {
        let wrong = |(index, entry): (usize, &String)| Some((index, problem(entry, known)?));
        self.allow.iter().enumerate().filter_map(wrong).collect()
    }
}

/// Whether an entry names a method, or its family.
fn covers(entry: &str, name: &str) -> bool {
    match entry.strip_suffix('*') {
        Some(family) if family.ends_with('.') => name.starts_with(family),
        _ => entry == name,
    }
}

fn problem(entry: &str, known: &[KnownMethod]) -> Option<String> {
    let mut named = known.iter().filter(|it| covers(entry, it.name)).peekable();
    if named.peek().is_none() {
        let hint = did_you_mean(entry, known.iter().map(|it| it.name));
        return Some(format!("unknown method `{entry}`{hint}"));
    }
    // Of a family some may be allowed and others not.
    let refusals = named.map(|it| Some(format!("`{}` {}", it.name, it.never?)));
    refusals.collect::<Option<Vec<String>>>()?.pop()
}
