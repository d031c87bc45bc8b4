//! Heartbeats of replicas: their names and states, as each writes its own to Redis and reads all.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use chained_log::ChainHead;
use prometheus_client::metrics::counter::Counter;
use uuid::Uuid;

use super::{
    fleet_scripts::{ListAnswer, LogFile, beat, head, leave, list},
    redis_connection::{RedisConnection, StoreError},
    replica_status::{
        DecisionLogHead, DecisionLogView, FleetStatus, LostHead, ReplicaStatus, ReplicaView,
    },
};
use crate::{config::Secret, mutex::Mutex};

/// File with the name of the machine.
const HOST_NAME_FILE: &str = "/proc/sys/kernel/hostname";

/// Digits of the random id that are shown.
const SHOWN_ID_DIGITS: usize = 8;

/// This replica among those that share a Redis.
#[derive(Debug)]
pub struct Fleet {
    /// Connection that all uses of this Redis by the fleet share, made on first use.
    pub connection: RedisConnection,
    /// Name of the machine.
    host: String,
    /// Name of the machine and random id of this process.
    pub replica: String,
    /// Name of the decision log whose file was compared with what Redis has of it. An open file
    /// only grows.
    compared_log: Mutex<Option<String>>,
    /// Replicas at the last heartbeat; zero before the first.
    replicas: AtomicU64,
}

impl Fleet {
    /// Time between two heartbeats.
    pub const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(1);

    /// Creates a replica of the fleet whose Redis is at `url`. Connects on first use.
    ///
    /// # Errors
    ///
    /// Returns an error if the URL is invalid.
    pub fn new(url: &Secret, failures: Counter) -> Result<Self, StoreError> {
        let host = fs::read_to_string(HOST_NAME_FILE).unwrap_or_default();
        let host = host.trim().to_owned();
        let id = Uuid::new_v4().simple().to_string();
        let id = id.get(..SHOWN_ID_DIGITS).unwrap_or_default();
        Ok(Self {
            connection: RedisConnection::new(url, "fleet", failures)?,
            replica: format!("{host}-{id}"),
            host,
            compared_log: Mutex::default(),
            replicas: AtomicU64::new(0),
        })
    }

    /// Returns the number of replicas at the last heartbeat; zero before the first.
    pub fn replicas(&self) -> u64 {
        self.replicas.load(Ordering::Relaxed)
    }

    /// Returns the name of the decision log at `path` among those of all machines.
    pub fn log_name(&self, path: &Path) -> String {
        format!("{}:{}", self.host, path.display())
    }

    /// Writes a heartbeat. Returns `false` if Redis is unavailable.
    pub async fn beat(&self, status: &ReplicaStatus) -> bool {
        self.connection.connect().await;
        let log = status.decision_log.as_ref().map(|head| head.log.as_str());
        let Some(file) = self.compare_log(log).await else {
            return false;
        };
        // A status has no map whose keys could be unsuitable.
        let state = serde_json::to_vec(status).unwrap_or_default();
        let call = beat(status, state, file);
        let replicas: Option<u64> = self.connection.run_script(&call).await;
        if let Some(replicas) = replicas {
            self.replicas.store(replicas, Ordering::Relaxed);
            *self.compared_log.lock() = log.map(str::to_owned);
        }
        replicas.is_some()
    }

    /// Looks up the last line that Redis has of a decision log in its file, before the first
    /// heartbeat with that log. Returns `None` if Redis is unavailable.
    async fn compare_log(&self, log: Option<&str>) -> Option<LogFile> {
        let Some(log) = log.filter(|log| self.compared_log.lock().as_deref() != Some(*log)) else {
            return Some(LogFile::Continued);
        };
        let known: Option<String> = self.connection.run_script(&head(log)).await?;
        let path = log.strip_prefix(&self.host);
        let path = path.and_then(|rest| rest.strip_prefix(':'));
        let (Some(path), Some(known)) = (path, known.as_deref().and_then(parse_head)) else {
            return Some(LogFile::Continued);
        };
        let (path, LostHead { seq, hash }) = (PathBuf::from(path), known);
        let read = move || chained_log::contains(&path, &ChainHead { seq, hash });
        // A file that cannot be read does not show the line.
        match tokio::task::spawn_blocking(read).await {
            Ok(Ok(true)) => Some(LogFile::Continued),
            Ok(_) | Err(_) => Some(LogFile::Replaced),
        }
    }

    /// Removes this replica from the fleet.
    pub async fn leave(&self) {
        let call = leave(&self.replica);
        let _left: Option<()> = self.connection.run_script(&call).await;
    }

    /// Returns the state of all replicas; `None` if Redis is unavailable.
    pub async fn status(&self) -> Option<FleetStatus> {
        let listed = self.connection.run_script(&list()).await?;
        Some(fleet_status(listed))
    }
}

/// Reads what Redis has of a fleet. What another version wrote otherwise is left out.
fn fleet_status((replicas, logs): ListAnswer) -> FleetStatus {
    let read = |(heartbeat_age_ms, state): (u64, Vec<u8>)| {
        Some(ReplicaView {
            status: serde_json::from_slice(&state).ok()?,
            heartbeat_age_ms,
            is_lagging: false,
        })
    };
    let mut replicas: Vec<ReplicaView> = replicas.into_iter().filter_map(read).collect();
    replicas.sort_by(|one, other| one.status.id.cmp(&other.status.id));
    // Times of one form and zone, which are ordered as texts.
    let newest = replicas.iter().max_by_key(|replica| &replica.status.since);
    let revision = newest.map(|replica| replica.status.revision.clone());
    let revision = revision.unwrap_or_default();
    for replica in &mut replicas {
        replica.is_lagging = replica.status.revision != revision;
    }
    let logs = logs.into_iter().filter_map(|(log, head, lost)| {
        let LostHead { seq, hash } = parse_head(&head)?;
        Some(DecisionLogView {
            head: DecisionLogHead { log, seq, hash },
            lost: parse_head(&lost),
        })
    });
    let mut decision_logs: Vec<DecisionLogView> = logs.collect();
    decision_logs.sort_by(|one, other| one.head.log.cmp(&other.head.log));
    FleetStatus {
        revision,
        replicas,
        decision_logs,
    }
}

fn parse_head(text: &str) -> Option<LostHead> {
    let (seq, hash) = text.split_once(' ')?;
    Some(LostHead {
        seq: seq.parse().ok()?,
        hash: hash.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replica(id: &str, revision: &str, since: &str) -> (u64, Vec<u8>) {
        let status = ReplicaStatus {
            id: id.to_owned(),
            version: "1".to_owned(),
            revision: revision.to_owned(),
            since: since.to_owned(),
            last_reload_error: None,
            guards_proven: 0,
            guards_unproven: Vec::new(),
            decision_log: None,
        };
        (5, serde_json::to_vec(&status).unwrap())
    }

    #[test]
    fn replicas_without_the_revision_that_came_into_use_last_lag_behind() {
        let replicas = vec![
            replica("b", "old", "2026-11-25T16:02:11.204Z"),
            replica("a", "new", "2026-11-25T16:02:11.205Z"),
            (1, b"?".to_vec()),
        ];
        let logs = vec![("h /l".to_owned(), "3 ff".to_owned(), "9 aa".to_owned())];

        let status = fleet_status((replicas, logs));

        assert_eq!(status.revision, "new");
        let lagging = status.replicas.iter();
        let lagging: Vec<_> = lagging
            .map(|view| (view.status.id.as_str(), view.is_lagging))
            .collect();
        assert_eq!(lagging, [("a", false), ("b", true)]);
        let log = &status.decision_logs[0];
        assert_eq!((log.head.seq, log.lost.as_ref().unwrap().seq), (3, 9));
    }
}
