//! Keeps what replicas share in Redis up to date: heartbeats, and the limits of callers.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::{fleet::Fleet, state::App, view};

/// Time between two attempts to reach a Redis that is unavailable. The connection pauses
/// longer after a failure.
const RETRY_INTERVAL: Duration = Duration::from_millis(200);

/// Sends heartbeats and keeps shared limits in sync for as long as the future is polled.
pub(super) async fn share_state(app: App) {
    let mut renewed_at = Instant::now();
    loop {
        let shared = app.snapshot().shared.clone();
        if shared.limits.is_none() {
            app.resources.metrics.limits_shared.set(0);
        }
        let Some(fleet) = shared.fleet else {
            sleep(Fleet::HEARTBEAT_INTERVAL).await;
            continue;
        };
        let has_beat = fleet.beat(&view::fleet::own_status(&app, &fleet)).await;
        match shared.limits {
            Some(limits) if has_beat => {
                let queue = &app.resources.auth.limit_sync;
                queue.keep_in_sync(&limits, &mut renewed_at).await;
            }
            Some(limits) => {
                limits.lose();
                sleep(RETRY_INTERVAL).await;
            }
            None => sleep(Fleet::HEARTBEAT_INTERVAL).await,
        }
    }
}

/// Writes what shared limits do not have yet and leaves the fleet, at the end of the process.
pub(super) async fn leave_fleet(app: &App) {
    let snapshot = app.snapshot();
    if let Some(limits) = &snapshot.shared.limits {
        app.resources.auth.limit_sync.flush(limits).await;
    }
    if let Some(fleet) = &snapshot.shared.fleet {
        fleet.leave().await;
    }
}
