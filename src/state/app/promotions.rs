//! Promotions of stored revisions, and rollbacks to the one before.

use std::sync::Arc;

use super::App;
use crate::{
    audit_log::{PromotionKind, PromotionRecord},
    state::{
        revision_store::{RevisionError, StoredRevision},
        revisions::{ReloadCause, ReloadError},
    },
};

impl App {
    /// Takes a stored revision into use, or ends the rollout of that in use, through the checks and
    /// proofs of a reload. It stays in use, without its rollout, until the config file changes.
    /// Is refused if a version other than `expected` is in use. Blocks like [`Self::reload`].
    ///
    /// # Errors
    ///
    /// Returns the reason why the revision is not in use. The snapshot stays.
    pub fn promote(
        &self,
        version: &str,
        by: &Arc<str>,
        report: Option<String>,
        expected: Option<&str>,
    ) -> Result<PromotionRecord, ReloadError> {
        let _running = self.reloads.running.lock();
        self.check_in_use(expected)?;
        let stored = self.source()?.stored(version)?;
        let cause = ReloadCause::Promotion(Arc::clone(by));
        self.put_in_force(stored, cause, PromotionKind::Promote, report)
    }

    /// Takes the revision into use that was in use before, like [`Self::promote`]. `expected` has the
    /// version that must be in use, and the one before it.
    ///
    /// # Errors
    ///
    /// Returns the reason why the revision is not in use. The snapshot stays.
    pub fn roll_back(
        &self,
        by: &Arc<str>,
        expected: Option<&(String, String)>,
    ) -> Result<PromotionRecord, ReloadError> {
        let _running = self.reloads.running.lock();
        self.check_in_use(expected.map(|(in_use, _)| in_use.as_str()))?;
        let source = self.source()?;
        let active = source.active().ok_or(RevisionError::NotKept)?;
        let previous = active.previous.ok_or_else(|| {
            ReloadError::Rejected("no other revision was in use before that in use".to_owned())
        })?;
        if expected.is_some_and(|(_, target)| *target != previous) {
            return Err(changed_since());
        }
        let stored = source.stored(&previous)?;
        let cause = ReloadCause::Rollback(Arc::clone(by));
        self.put_in_force(stored, cause, PromotionKind::Rollback, None)
    }

    /// Refuses a change that was asked for while another version was in use.
    fn check_in_use(&self, expected: Option<&str>) -> Result<(), ReloadError> {
        if expected.is_none_or(|version| version == self.snapshot().config.version) {
            return Ok(());
        }
        Err(changed_since())
    }

    fn put_in_force(
        &self,
        stored: StoredRevision,
        cause: ReloadCause,
        action: PromotionKind,
        report: Option<String>,
    ) -> Result<PromotionRecord, ReloadError> {
        let from = self.snapshot().config.version.clone();
        if from == stored.version && self.snapshot().rollout_status().is_none() {
            let message = format!("revision `{from}` is in use");
            return Err(ReloadError::Rejected(message));
        }
        let record = PromotionRecord {
            action,
            from,
            to: stored.version.clone(),
            by: cause.user().to_owned(),
            report,
        };
        self.change(cause, Some(&record), |source| {
            Ok(source.read_stored(stored)?)
        })?;
        Ok(record)
    }
}

fn changed_since() -> ReloadError {
    let message = "another config is in use since the page was loaded; load it again";
    ReloadError::Rejected(message.to_owned())
}
