//! The upstreams that the command line names.

use serde_json::{Value, json};
use url::Url;

use crate::config::{
    overrides::Overrides,
    schema::formats::is_base_url,
    source_span::{ConfigError, Problem},
};

/// Adds the upstreams of the command line to a config.
pub(super) fn add_upstreams(value: &mut Value, overrides: &Overrides) -> Result<(), ConfigError> {
    match &overrides.upstream {
        Some(url) if is_base_url(url) => set_url(value, "gemini", url),
        Some(_) => {
            let message =
                "`--upstream` must be an http or https URL without user, query or fragment";
            return Err(Problem::without_span(message).into());
        }
        None => (),
    }
    if let Some(url) = &overrides.missing_upstreams
        && value.get("upstreams").is_none()
    {
        for api in ["gemini", "vertex", "code_assist", "anthropic", "openai"] {
            set_url(value, api, url);
        }
    }
    Ok(())
}

fn set_url(value: &mut Value, api: &str, url: &Url) {
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
