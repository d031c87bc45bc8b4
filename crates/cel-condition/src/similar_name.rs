//! Suggestions for misspelled names.

/// The lowest Jaro-Winkler similarity at which a name is suggested.
const MIN_SIMILARITY: f64 = 0.8;

/// Returns the most similar of the `known` names, for a "did you mean"; `None` if none is
/// similar.
pub fn similar_name<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.to_lowercase();
    known
        .map(|other| (strsim::jaro_winkler(&name, &other.to_lowercase()), other))
        .filter(|(similarity, _)| *similarity >= MIN_SIMILARITY)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, other)| other)
}
