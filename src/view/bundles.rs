//! The bundles in use, and the results of the last requests for others.

use serde::Serialize;
use utoipa::ToSchema;

use crate::{state::App, timestamp::rfc3339};

/// A bundle whose policies are in use.
#[derive(Debug, Serialize, ToSchema)]
pub struct BundleView {
    /// Name of the bundle in `source`.
    pub name: String,
    /// Revision of the bundle.
    pub revision: String,
    /// Time at which it was built: RFC 3339 in UTC.
    pub created: String,
    /// SHA-256 of its manifest.
    pub digest: String,
    /// Time of the last response of its server: RFC 3339 in UTC.
    pub checked: Option<String>,
    /// Reason why it may not be the bundle of its server.
    pub error: Option<String>,
}

/// Returns the bundles in use, the organisation's first.
pub fn bundles(app: &App) -> Vec<BundleView> {
    let snapshot = app.snapshot();
    let layers = snapshot.config.layers.iter();
    let bundles = layers.filter_map(|layer| {
        let manifest = layer.bundle.as_ref()?.bundle().manifest();
        let status = app.resources.bundles.get(&layer.name);
        Some(BundleView {
            name: layer.name.clone(),
            revision: manifest.revision.to_string(),
            created: rfc3339(manifest.created),
            digest: layer.digest.clone(),
            checked: status.checked.map(rfc3339),
            error: status.error().map(str::to_owned),
        })
    });
    bundles.collect()
}
