//! Hosted searches that no entry of `tools` declares, in the forms of the API and of compatible
//! servers.

use bytes::Bytes;

use crate::dialect::{
    document::{Document, is_set, write_array},
    error::Result,
};

/// Name of the tool under which hooks and policies see the search.
pub const SEARCH_TOOL: &str = "web_search";

/// Fields that switch a search on.
const SEARCH_FIELDS: &[&[&str]] = &[&["web_search_options"], &["search_parameters"]];

const PLUGINS: &[&str] = &["plugins"];

/// Returns whether a request has a search that no entry of `tools` declares.
///
/// # Errors
///
/// Fails for another spelling of its field, and for plugins that are no list.
pub fn has_search(body: &Document) -> Result<bool> {
    for field in SEARCH_FIELDS {
        if is_set(body, field)? {
            return Ok(true);
        }
    }
    for plugin in body.children(PLUGINS)?.unwrap_or_default() {
        if is_search(&plugin)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Removes the search, in each of its forms.
///
/// # Errors
///
/// Fails for what [`has_search`] refuses.
pub fn remove_search(body: &mut Document) -> Result<()> {
    for field in SEARCH_FIELDS {
        body.remove(field)?;
    }
    let plugins = body.children(PLUGINS)?.unwrap_or_default();
    let mut kept: Vec<Bytes> = Vec::new();
    for plugin in &plugins {
        if !is_search(plugin)? {
            kept.push(plugin.to_bytes());
        }
    }
    match kept.len() {
        count if count == plugins.len() => Ok(()),
        0 => body.remove(PLUGINS),
        _ => body.set_bytes(PLUGINS, write_array(kept)),
    }
}

fn is_search(plugin: &Document) -> Result<bool> {
    Ok(plugin.string(&["id"])?.as_deref() == Some("web"))
}
