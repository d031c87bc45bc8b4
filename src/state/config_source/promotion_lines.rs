//! Writes the lines of promotions to the decision log.
//!
//! `active.json` has the promotions whose lines are not written yet. If the process is killed
//! before it writes one, the next start with a decision log does.

use std::sync::Arc;

use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;

use super::{ActiveRevision, ConfigSource, RevisionError, SourceState};
use crate::audit_log::{AuditLog, AuditRecord, PromotionKind, PromotionRecord};

impl ConfigSource {
    /// Returns the promotions that a start records: those that are not recorded yet, and that
    /// of the revision in use.
    pub(in crate::state) fn promotions_at_start(&self) -> Vec<PromotionRecord> {
        let state = self.state();
        let active = state.active.as_ref();
        let mut promotions = active.map_or_else(Vec::new, |active| active.unrecorded.clone());
        promotions.extend(state.promoted().map(resumed));
        promotions
    }

    /// Appends promotions to the decision log. Once they are written, or if there is no log, they
    /// count as recorded. Needs a runtime.
    pub(in crate::state) fn append_promotions(
        &self,
        promotions: Vec<PromotionRecord>,
        audit: Option<&Arc<AuditLog>>,
        tasks: &TaskTracker,
    ) {
        if promotions.is_empty() {
            return;
        }
        let appended = audit.map(|audit| {
            let since = audit.checkpoint();
            for promotion in &promotions {
                audit.append(&AuditRecord::Promoted(promotion.clone()));
            }
            (Arc::clone(audit), since)
        });
        let (source, runtime) = (self.clone(), Handle::current());
        tasks.spawn_blocking(move || {
            if let Some((audit, since)) = appended
                && runtime.block_on(audit.commit_always(since)).is_err()
            {
                // The decision log reports why. The next start appends them again.
                return;
            }
            if let Err(error) = source.remove_recorded(&promotions) {
                tracing::warn!(%error, "recorded promotions will be recorded again");
            }
        });
    }

    /// Removes promotions that are recorded from those that are not.
    fn remove_recorded(&self, promotions: &[PromotionRecord]) -> Result<(), RevisionError> {
        let mut state = self.state.lock();
        let SourceState { store, active, .. } = &mut *state;
        let (Some(store), Some(active)) = (store, active) else {
            return Ok(());
        };
        let before = active.unrecorded.len();
        let is_recorded = |promotion: &PromotionRecord| promotions.contains(promotion);
        active
            .unrecorded
            .retain(|promotion| !is_recorded(promotion));
        if active.unrecorded.len() == before {
            return Ok(());
        }
        store.set_active(active)
    }
}

/// Returns the record of a promoted revision that is in use after a start.
fn resumed(active: &ActiveRevision) -> PromotionRecord {
    PromotionRecord {
        action: PromotionKind::Resume,
        from: active.file.clone(),
        to: active.revision.clone(),
        by: active.by.clone(),
        report: active.report.clone(),
    }
}
