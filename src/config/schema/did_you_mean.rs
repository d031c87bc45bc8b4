//! Suggestions for misspelled names.

/// The lowest Jaro-Winkler similarity at which a name is suggested.
const MIN_SIMILARITY: f64 = 0.8;

/// Returns `; did you mean …?` with the most similar of the `known` names, or an
/// empty text if none is similar.
pub(crate) fn did_you_mean<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
    let similarity =
        |other: &str| strsim::jaro_winkler(&name.to_lowercase(), &other.to_lowercase());
    known
        .map(|other| (similarity(other), other))
        .filter(|(similarity, _)| *similarity >= MIN_SIMILARITY)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, other)| format!("; did you mean `{other}`?"))
        .unwrap_or_default()
}
