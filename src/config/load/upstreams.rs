//! The model APIs of a config: with which credential each is called, and which of
//! their methods pass unseen.

use serde_json::{Value, json};
use url::Url;

use super::Reading;
use crate::config::{
    ConfigError, CoverageSettings, Known, Overrides, Problem, UpstreamsConfig, check::is_base_url,
};

impl Reading {
    pub(super) fn check_upstreams(
        &mut self,
        upstreams: &UpstreamsConfig,
        coverage: &CoverageSettings,
        known: &Known,
    ) {
        if upstreams.is_empty() {
            let message = "`upstreams` must hold `gemini`, `vertex` or `code_assist`";
            self.problem("/upstreams", message);
        }
        for (index, wrong) in coverage.wrong(&known.methods) {
            self.problem(&format!("/coverage/allow/{index}"), &wrong);
        }
    }
}

/// Puts the upstreams that do not stand in the file into the config.
pub(super) fn put_upstreams(value: &mut Value, overrides: &Overrides) -> Result<(), ConfigError> {
    match &overrides.upstream {
        Some(url) if is_base_url(url) => put_upstream(value, "gemini", url),
        Some(_) => {
            let message =
                "`--upstream` must be an http or https URL without user, query or fragment";
            return Err(Problem::nowhere(message).into());
        }
        None => (),
    }
    let none = value.get("upstreams").is_none();
    for url in overrides.missing_upstreams.iter().filter(|_| none) {
        for api in ["gemini", "vertex", "code_assist"] {
            put_upstream(value, api, url);
        }
    }
    Ok(())
}

fn put_upstream(value: &mut Value, api: &str, url: &Url) {
    let mut value = value;
    for key in ["upstreams", api] {
        let Some(fields) = value.as_object_mut() else {
            return;
        };
        value = fields.entry(key).or_insert_with(|| json!({}));
    }
    if let Some(fields) = value.as_object_mut() {
        fields.insert("url".to_owned(), url.as_str().into());
    }
}
