//! Globs and regular expressions in the settings of policies.
//!
//! Both are checked with the config, at their place, by the formats that their
//! schemas name.

use std::{borrow::Cow, sync::Arc};

use globset::{GlobBuilder, GlobMatcher};
use regex::{
    Regex,
    bytes::{RegexSet, RegexSetBuilder},
};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize;

use crate::config::Format;

/// How a [`Glob`] is written.
pub(super) const GLOB: Format = Format {
    name: "glob",
    check: |text| glob(text).map(drop),
};

/// How a [`Pattern`] is written.
pub(super) const PATTERN: Format = Format {
    name: "pattern",
    check: |text| pattern(text).map(drop),
};

/// How a [`Find`] is written.
pub(super) const FIND: Format = Format {
    name: "find",
    check: |text| find(text).map(drop),
};

/// A name in which `*` stands for anything, `?` for one character, `[ab]` for
/// one of these and `{a,b}` for one of these names.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(rename = "Glob", with = "String", extend("format" = "glob"))]
pub(super) struct Glob(GlobMatcher);

impl Glob {
    /// Whether the whole of `name` is meant.
    pub(super) fn matches(&self, name: &str) -> bool {
        self.0.is_match(name)
    }
}

impl TryFrom<String> for Glob {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        glob(&text).map(Self)
    }
}

/// Names, of which one must be meant. All are looked for at once: by what `globset`
/// makes of each. Its own sets know paths, and do not find `..` where `*.` does.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(try_from = "Vec<Glob>")]
pub(super) struct Globs(Arc<RegexSet>);

impl Globs {
    /// Whether the whole of `name` is meant by any.
    pub(super) fn matches(&self, name: &str) -> bool {
        self.0.is_match(name.as_bytes())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl TryFrom<Vec<Glob>> for Globs {
    type Error = String;

    fn try_from(globs: Vec<Glob>) -> Result<Self, String> {
        let globs = globs.iter().map(|it| it.0.glob().regex());
        let set = RegexSetBuilder::new(globs)
            .dot_matches_new_line(true)
            .build();
        match set {
            Ok(set) => Ok(Self(Arc::new(set))),
            Err(error) => Err(format!("are too many globs: {error}")),
        }
    }
}

impl JsonSchema for Globs {
    fn schema_name() -> Cow<'static, str> {
        "Globs".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Vec::<Glob>::json_schema(generator)
    }

    fn inline_schema() -> bool {
        true
    }
}

/// A regular expression, found anywhere in a text.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(rename = "Pattern", with = "String", extend("format" = "pattern"))]
pub(super) struct Pattern(Regex);

impl Pattern {
    /// Whether it is found in `text`.
    pub(super) fn is_in(&self, text: &str) -> bool {
        self.0.is_match(text)
    }
}

impl TryFrom<String> for Pattern {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        pattern(&text).map(Self)
    }
}

/// A regular expression that is found in some texts only.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(rename = "Find", with = "String", extend("format" = "find"))]
pub(super) struct Find(Regex);

impl Find {
    /// Whether it is found in `text`.
    pub(super) fn is_in(&self, text: &str) -> bool {
        self.0.is_match(text)
    }
}

impl TryFrom<String> for Find {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        find(&text).map(Self)
    }
}

fn find(text: &str) -> Result<Regex, String> {
    let regex = pattern(text)?;
    if regex.is_match("") {
        return Err("matches nothing at all, so it would match everywhere".to_owned());
    }
    Ok(regex)
}

fn glob(text: &str) -> Result<GlobMatcher, String> {
    // Names of tools and models are no paths: `*` takes a `/`, too.
    let glob = GlobBuilder::new(text)
        .literal_separator(false)
        .backslash_escape(true)
        .build();
    match glob {
        Ok(glob) => Ok(glob.compile_matcher()),
        Err(error) => Err(format!("is no glob: {}", error.kind())),
    }
}

fn pattern(text: &str) -> Result<Regex, String> {
    // The last line says what is wrong; those before draw it.
    Regex::new(text).map_err(|error| {
        let error = error.to_string();
        let cause = error.lines().last().unwrap_or_default().trim();
        let cause = cause.strip_prefix("error: ").unwrap_or(cause);
        format!("is no regular expression: {cause}")
    })
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    proptest! {
        #[test]
        fn many_globs_mean_what_each_means(
            globs in vec(r"[ab.*?/é]{0,5}|\{a,[b.]\*?\}|[a-z]{1,3}_\*", 0..6),
            name in "[ab./_é\n]{0,5}|[.][.]",
        ) {
            let each = globs.into_iter().map(Glob::try_from);
            let each: Vec<Glob> = each.collect::<Result<_, _>>().unwrap();
            let one = each.iter().any(|it| it.matches(&name));
            prop_assert_eq!(Globs::try_from(each).unwrap().matches(&name), one);
        }
    }

    #[test]
    fn a_name_is_no_path() {
        let globs = ["*.", "*.b", "**/a"].map(|it| Glob::try_from(it.to_owned()).unwrap());
        let globs = Globs::try_from(globs.to_vec()).unwrap();
        assert!(globs.matches("..") && globs.matches("a/..b") && globs.matches("x/a"));
        assert!(!globs.matches("b") && !Globs::default().matches(""));
    }

    #[test]
    fn a_glob_means_the_whole_name() {
        let glob = Glob::try_from("gemini-2.5-*".to_owned()).unwrap();
        assert!(glob.matches("gemini-2.5-pro") && !glob.matches("x-gemini-2.5-pro"));
        let glob = Glob::try_from("mcp__*".to_owned()).unwrap();
        assert!(glob.matches("mcp__files__a/b") && !glob.matches("mcp_x"));
        assert!(Glob::try_from("a[".to_owned()).is_err());
    }

    #[test]
    fn what_is_found_everywhere_is_refused() {
        for text in ["", "x*", "(?i)a|", "^"] {
            let error = Find::try_from(text.to_owned()).unwrap_err();
            assert_eq!(
                error,
                "matches nothing at all, so it would match everywhere"
            );
        }
        let find = Find::try_from("a+".to_owned()).unwrap();
        assert!(find.is_in("ba") && !find.is_in("b"));
    }

    #[test]
    fn a_wrong_pattern_says_what_is_wrong() {
        let error = Pattern::try_from("(a".to_owned()).unwrap_err();
        assert_eq!(error, "is no regular expression: unclosed group");
    }
}
