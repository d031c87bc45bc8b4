//! Rules for a bundle before it is used instead of the one in use.

use policy_bundle::{Bundle, BundleError, Manifest, Requirement, Revision};
use thiserror::Error;

use super::store::BundleStoreError;
use crate::{config::BundleOrigin, state::ReloadError};

/// Reason why a bundle is not used.
#[derive(Debug, Error)]
pub enum OfferRefusal {
    /// The archive or its signature is not valid.
    #[error(transparent)]
    Bundle(#[from] BundleError),
    /// This version of hookgate is too low.
    #[error("it requires hookgate {0}, and this is {version}", version = env!("CARGO_PKG_VERSION"))]
    Requires(Requirement),
    /// The bundle is not newer than that in use.
    #[error(
        "its revision `{revision}` of {created} is not newer than revision `{current}` in use, which does not allow it as its parent"
    )]
    Older {
        /// Revision of the bundle.
        revision: Revision,
        /// Time of the bundle.
        created: jiff::Timestamp,
        /// Revision of the bundle in use.
        current: Revision,
    },
    /// The bundle cannot be stored.
    #[error(transparent)]
    Store(#[from] BundleStoreError),
    /// The config with the bundle is refused, or its tests fail.
    #[error(transparent)]
    Reload(#[from] ReloadError),
}

impl OfferRefusal {
    /// Returns whether the reason is not in the bundle and may pass, such as a full disk.
    pub(super) const fn is_transient(&self) -> bool {
        matches!(
            self,
            Self::Bundle(BundleError::Io { .. })
                | Self::Store(_)
                | Self::Reload(ReloadError::Transient(_))
        )
    }
}

/// Checks the signature of a bundle, its requirement, and that it is newer than that in use.
///
/// # Errors
///
/// Returns the first rule that it breaks.
pub(super) fn check_offer(
    origin: &BundleOrigin,
    bundle: &Bundle,
    current: Option<&Manifest>,
) -> Result<(), OfferRefusal> {
    if !origin.unsigned {
        bundle.verify(&origin.keys)?;
    }
    let manifest = bundle.manifest();
    if !manifest.requires.allows(env!("CARGO_PKG_VERSION")) {
        return Err(OfferRefusal::Requires(manifest.requires));
    }
    match current {
        Some(current) if !is_successor(manifest, current) => Err(OfferRefusal::Older {
            revision: manifest.revision.clone(),
            created: manifest.created,
            current: current.revision.clone(),
        }),
        _ => Ok(()),
    }
}

/// Returns whether a bundle is equal to another one, newer, or its parent to which it may return.
fn is_successor(new: &Manifest, old: &Manifest) -> bool {
    let is_parent = old.allows_parent && old.parent.as_ref() == Some(&new.revision);
    new == old || new.created > old.created || is_parent
}
