//! Globs and regular expressions in the settings of policies. The formats of their
//! schemas check them when the config is loaded.

use std::sync::Arc;

use globset::GlobMatcher;
use regex::{
    Regex,
    bytes::{RegexSet, RegexSetBuilder},
};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::config::Format;

/// Schema format of a [`Glob`].
pub(super) const GLOB: Format = text_format::<Glob>("glob");

/// Schema format of a [`Pattern`].
pub(super) const PATTERN: Format = text_format::<Pattern>("pattern");

/// Schema format of a [`NonEmptyPattern`].
pub(super) const FIND: Format = text_format::<NonEmptyPattern>("find");

/// Returns the format of texts that become a `T`.
const fn text_format<T: TryFrom<String, Error = String>>(name: &'static str) -> Format {
    Format {
        name,
        check: |text| T::try_from(text.to_owned()).map(drop),
    }
}

/// A name with wildcards: `*` matches any text, `?` one character, `[ab]` one of these
/// characters and `{a,b}` one of these names.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(rename = "Glob", with = "String", extend("format" = "glob"))]
pub(super) struct Glob(pub(super) GlobMatcher);

impl TryFrom<String> for Glob {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        // Names of tools and models are not paths: `*` matches `/` as well.
        match globset::Glob::new(&text) {
            Ok(glob) => Ok(Self(glob.compile_matcher())),
            Err(error) => Err(format!("is not a valid glob: {}", error.kind())),
        }
    }
}

/// A list of globs, matched all at once. They are translated with `globset` and matched
/// with `regex`: the sets of `globset` are for paths, where `*.` does not match `..`.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(try_from = "Vec<Glob>")]
#[schemars(with = "Vec<Glob>", inline)]
pub(super) struct Globs {
    set: Arc<RegexSet>,
    texts: Arc<[String]>,
}

impl Globs {
    /// Returns the globs as they are written.
    pub(super) fn texts(&self) -> &[String] {
        &self.texts
    }

    /// Returns whether the whole of `name` matches any glob.
    pub(super) fn matches(&self, name: &str) -> bool {
        self.set.is_match(name.as_bytes())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }
}

impl TryFrom<Vec<Glob>> for Globs {
    type Error = String;

    fn try_from(globs: Vec<Glob>) -> Result<Self, String> {
        let globs = globs.iter().map(|glob| glob.0.glob());
        let set = RegexSetBuilder::new(globs.clone().map(globset::Glob::regex))
            .dot_matches_new_line(true)
            .build();
        match set {
            Ok(set) => Ok(Self {
                set: Arc::new(set),
                texts: globs.map(|glob| glob.glob().to_owned()).collect(),
            }),
            Err(error) => Err(format!("are too large in total: {error}")),
        }
    }
}

/// A regular expression, searched in a text.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(rename = "Pattern", with = "String", extend("format" = "pattern"))]
pub(super) struct Pattern(pub(super) Regex);

impl TryFrom<String> for Pattern {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        // The last line describes the error; those before it draw the pattern.
        Regex::new(&text).map(Self).map_err(|error| {
            let error = error.to_string();
            let cause = error.lines().last().unwrap_or_default().trim();
            let cause = cause.strip_prefix("error: ").unwrap_or(cause);
            format!("is not a valid regular expression: {cause}")
        })
    }
}

/// A regular expression that does not match the empty text, and so every text.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(rename = "Find", with = "String", extend("format" = "find"))]
pub(super) struct NonEmptyPattern(pub(super) Regex);

impl TryFrom<String> for NonEmptyPattern {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let Pattern(regex) = text.try_into()?;
        if regex.is_match("") {
            return Err("matches the empty text, and so every text".to_owned());
        }
        Ok(Self(regex))
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    proptest! {
        #[test]
        fn a_list_matches_what_any_of_its_globs_matches(
            globs in vec(r"[ab.*?/é]{0,5}|\{a,[b.]\*?\}|[a-z]{1,3}_\*", 0..6),
            name in "[ab./_é\n]{0,5}|[.][.]",
        ) {
            let each = globs.into_iter().map(Glob::try_from);
            let each: Vec<Glob> = each.collect::<Result<_, _>>().unwrap();
            let any = each.iter().any(|glob| glob.0.is_match(&name));
            prop_assert_eq!(Globs::try_from(each).unwrap().matches(&name), any);
        }
    }

    #[test]
    fn a_glob_does_not_treat_names_as_paths() {
        let globs = ["*.", "*.b", "**/a"].map(|glob| Glob::try_from(glob.to_owned()).unwrap());
        let globs = Globs::try_from(globs.to_vec()).unwrap();
        assert!(globs.matches("..") && globs.matches("a/..b") && globs.matches("x/a"));
        assert!(!globs.matches("b") && !Globs::default().matches(""));
    }

    #[test]
    fn a_glob_matches_the_whole_name() {
        let glob = Glob::try_from("gemini-2.5-*".to_owned()).unwrap();
        assert!(glob.0.is_match("gemini-2.5-pro") && !glob.0.is_match("x-gemini-2.5-pro"));
        let glob = Glob::try_from("mcp__*".to_owned()).unwrap();
        assert!(glob.0.is_match("mcp__files__a/b") && !glob.0.is_match("mcp_x"));
        assert!(Glob::try_from("a[".to_owned()).is_err());
    }

    #[test]
    fn a_pattern_that_matches_the_empty_text_is_rejected() {
        for text in ["", "x*", "(?i)a|", "^"] {
            let error = NonEmptyPattern::try_from(text.to_owned()).unwrap_err();
            assert_eq!(error, "matches the empty text, and so every text");
        }
        let pattern = NonEmptyPattern::try_from("a+".to_owned()).unwrap();
        assert!(pattern.0.is_match("ba") && !pattern.0.is_match("b"));
    }

    #[test]
    fn an_invalid_pattern_is_reported_with_its_cause() {
        let error = Pattern::try_from("(a".to_owned()).unwrap_err();
        assert_eq!(error, "is not a valid regular expression: unclosed group");
    }
}
