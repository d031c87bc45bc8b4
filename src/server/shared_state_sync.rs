//! Keeps what replicas share in Redis up to date.

use tokio::time::{Instant, sleep};

use crate::{fleet::Fleet, state::App};

/// Keeps shared limits in sync for as long as the future is polled.
pub(super) async fn share_state(app: App) {
    let mut renewed_at = Instant::now();
    loop {
        let limits = app.snapshot().shared.limits.clone();
        match limits {
            Some(limits) => {
                let queue = &app.resources.auth.limit_sync;
                queue.keep_in_sync(&limits, &mut renewed_at).await;
            }
            None => {
                app.resources.metrics.limits_shared.set(0);
                sleep(Fleet::INTERVAL).await;
            }
        }
    }
}

/// Writes what shared limits do not have yet, at the end of the process.
pub(super) async fn leave_fleet(app: &App) {
    if let Some(limits) = &app.snapshot().shared.limits {
        app.resources.auth.limit_sync.flush(limits).await;
    }
}
