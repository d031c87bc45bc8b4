//! Hosted searches that no entry of `tools` declares, in the forms of the API and of compatible
//! servers.

use crate::dialect::{
    document::{Document, is_set, retain_elements, try_any},
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
    Ok(try_any(SEARCH_FIELDS, |field| is_set(body, field))?
        || try_any(&body.children(PLUGINS)?.unwrap_or_default(), is_search)?)
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
    let searches: Vec<bool> = plugins.iter().map(is_search).collect::<Result<_>>()?;
    retain_elements(body, PLUGINS, |index| searches.get(index) != Some(&true))
}

fn is_search(plugin: &Document) -> Result<bool> {
    Ok(plugin.string(&["id"])?.as_deref() == Some("web"))
}
