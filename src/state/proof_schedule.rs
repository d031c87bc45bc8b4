//! Proves guards again and again while a config is in use.

use std::{sync::Arc, time::Duration};

use tokio::time::sleep;

use super::{app::App, clock::utc_timestamp, snapshot::Snapshot};

/// Maximum time until guards are proven again after one of them was not.
const RETRY_INTERVAL: Duration = Duration::from_secs(30);

/// Proves the guards of the current config every `proof.every`, until shutdown. A proof
/// ends when its config is replaced.
pub async fn prove_guards(app: App) {
    let shutdown = app.resources.shutdown.clone();
    shutdown.run_until_cancelled(prove_repeatedly(&app)).await;
}

async fn prove_repeatedly(app: &App) {
    loop {
        // The snapshot is not kept while waiting: it ends with its last request.
        let (replaced, delay) = {
            let snapshot = app.snapshot();
            (snapshot.proofs.replaced(), delay(&snapshot))
        };
        if replaced.run_until_cancelled(sleep(delay)).await.is_none() {
            continue;
        }
        let snapshot = app.snapshot();
        let replaced = snapshot.proofs.replaced();
        let proved = prove(snapshot);
        replaced.run_until_cancelled(proved).await;
    }
}

async fn prove(snapshot: Arc<Snapshot>) {
    let Snapshot {
        engine,
        config,
        proofs,
        ..
    } = &*snapshot;
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
