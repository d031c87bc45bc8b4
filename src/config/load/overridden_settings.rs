//! The upstreams and addresses of the command line.

use serde_json::{Value, json};

use crate::config::{
    overrides::Overrides,
    schema::formats::is_base_url,
    source_span::{ConfigError, Problem},
};

/// Adds the upstreams of the command line to a config.
pub(super) fn add_upstreams(value: &mut Value, overrides: &Overrides) -> Result<(), ConfigError> {
    match &overrides.upstream {
        Some(url) if is_base_url(url) => set(value, &["upstreams", "gemini", "url"], url.as_str()),
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
            set(value, &["upstreams", api, "url"], url.as_str());
        }
    }
    Ok(())
}

/// Sets the addresses of the command line.
pub(super) fn set_addresses(value: &mut Value, overrides: &Overrides) {
    if let Some(listen) = overrides.listen {
        set(value, &["listen"], &listen.to_string());
    }
    if let Some(listen) = overrides.admin_listen {
        set(value, &["admin", "listen"], &listen.to_string());
    }
}

/// Sets a setting by its name behind those of its sections, which are added if they are missing.
fn set(value: &mut Value, path: &[&str], setting: &str) {
    let Some((name, sections)) = path.split_last() else {
        return;
    };
    let mut value = value;
    for section in sections {
        let Some(fields) = value.as_object_mut() else {
            return;
        };
        value = fields.entry(*section).or_insert_with(|| json!({}));
    }
    if let Some(fields) = value.as_object_mut() {
        fields.insert((*name).to_owned(), setting.into());
    }
}
