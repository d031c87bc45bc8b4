//! Replicas that share a Redis: the connection, and heartbeats by which each replica sees
//! the others.
//!
//! Everything in Redis has an expiry. While Redis is unavailable, each replica continues
//! with what it saw last.

mod heartbeat;
mod redis_connection;

pub use self::{
    heartbeat::Fleet,
    redis_connection::{RedisConnection, RedisScript, ScriptCall, StoreError},
};
