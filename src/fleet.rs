//! Replicas that share a Redis: the connection, and heartbeats by which each replica sees
//! the others.
//!
//! Everything in Redis has an expiry. While Redis is unavailable, each replica continues
//! with what it saw last.

mod fleet_scripts;
mod heartbeat;
mod redis_connection;
mod redis_thread;
mod replica_status;

pub use self::{
    heartbeat::Fleet,
    redis_connection::{RedisConnection, ScriptCall, StoreError},
    replica_status::{
        DecisionLogHead, DecisionLogView, FleetStatus, LostHead, ReplicaStatus, ReplicaView,
    },
};
