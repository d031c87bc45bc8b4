//! Replay of recorded calls: the same config changes nothing, and another one what it must.

pub mod changes;
mod commands;
pub mod conversations;
mod identity;
pub mod recorded;
