//! Replay of recorded calls under the same config and under changed ones.

pub mod changes;
mod commands;
pub mod conversations;
mod identity;
pub mod recorded;
mod unknown_calls;
