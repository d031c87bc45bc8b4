//! State that a replica reports with each heartbeat.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// State of one replica at its last heartbeat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReplicaStatus {
    /// Name of the machine and a random id of the process.
    pub id: String,
    /// Version of hookgate that it runs.
    pub version: String,
    /// Version of the config in use.
    pub revision: String,
    /// Time since which it is in use: RFC 3339 in UTC.
    pub since: String,
    /// Problems of the last reload, if it was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_reload_error: Option<String>,
    /// Number of guards whose last proof succeeded.
    pub guards_proven: usize,
    /// Names of guards whose last proof failed.
    pub guards_unproven: Vec<String>,
    /// Last line of the decision log, if it is written to a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision_log: Option<DecisionLogHead>,
}

/// Last line of a decision log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DecisionLogHead {
    /// Name of the machine and path of the file.
    pub log: String,
    /// Sequence number of the line.
    pub seq: u64,
    /// Hash of the line.
    pub hash: String,
}

/// State of all replicas that share a Redis.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FleetStatus {
    /// Newest version of the config in use: the one that a replica began to use most recently.
    pub revision: String,
    /// Replicas with a recent heartbeat, by id.
    pub replicas: Vec<ReplicaView>,
    /// Decision logs with their last known line, by name.
    pub decision_logs: Vec<DecisionLogView>,
}

/// One replica among the others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReplicaView {
    /// State at the last heartbeat.
    #[serde(flatten)]
    pub status: ReplicaStatus,
    /// Milliseconds since that heartbeat, on the clock of Redis.
    pub heartbeat_age_ms: u64,
    /// True if it has another config than the fleet.
    pub is_lagging: bool,
}

/// Last line of a decision log that the fleet has seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DecisionLogView {
    /// Last line that was reported.
    #[serde(flatten)]
    pub head: DecisionLogHead,
    /// Last line before the log became shorter or was replaced, which a complete log contains.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost: Option<LostHead>,
}

/// A line that was reported and then missing from a decision log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LostHead {
    /// Sequence number of the line.
    pub seq: u64,
    /// Hash of the line.
    pub hash: String,
}
