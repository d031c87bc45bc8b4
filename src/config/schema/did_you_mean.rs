//! Suggestions for misspelled names.

use cel_condition::similar_name;

/// Returns `; did you mean …?` with the most similar of the `known` names, or an
/// empty text if none is similar.
pub(crate) fn did_you_mean<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
    similar_name(name, known)
        .map(|other| format!("; did you mean `{other}`?"))
        .unwrap_or_default()
}
