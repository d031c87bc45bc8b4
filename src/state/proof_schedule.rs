//! Proves guards again and again while a config is in use.

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;
use tokio::time::sleep;

use super::{app::App, rollout_progress::RolloutArm, snapshot::Snapshot};
use crate::timestamp::utc_timestamp;

/// Maximum time until guards are proven again after one of them was not.
const RETRY_INTERVAL: Duration = Duration::from_secs(30);

/// Proves the guards of each config in use every `proof.every`, until shutdown. A proof ends when
/// its config is replaced.
pub async fn prove_guards(app: App) {
    let shutdown = app.resources.shutdown.clone();
    let arms = [RolloutArm::Current, RolloutArm::Candidate];
    let proved = arms.map(|arm| prove_repeatedly(&app, arm));
    shutdown.run_until_cancelled(join_all(proved)).await;
}

async fn prove_repeatedly(app: &App, arm: RolloutArm) {
    loop {
        // The snapshot is not kept while waiting: it ends with its last request.
        let (replaced, delay) = {
            let snapshot = app.snapshot();
            (snapshot.proofs.replaced(), snapshot.arm(arm).map(delay))
        };
        let Some(delay) = delay else {
            replaced.cancelled().await;
            continue;
        };
        if replaced.run_until_cancelled(sleep(delay)).await.is_none() {
            continue;
        }
        let snapshot = app.snapshot();
        let replaced = snapshot.proofs.replaced();
        let proved = prove(snapshot, arm);
        replaced.run_until_cancelled(proved).await;
    }
}

async fn prove(snapshot: Arc<Snapshot>, arm: RolloutArm) {
    let Some(snapshot) = snapshot.arm(arm) else {
        return;
    };
    let Snapshot {
        engine,
        config,
        proofs,
        ..
    } = snapshot;
    proofs.prove_again(engine, config, &utc_timestamp()).await;
}

/// Returns the time until the next proof.
fn delay(snapshot: &Snapshot) -> Duration {
    let every = snapshot.config.proof.every;
    if snapshot.proofs.unproven().is_empty() {
        every
    } else {
        every.min(RETRY_INTERVAL)
    }
}
