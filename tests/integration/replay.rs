//! Replay of recorded calls: the same config changes nothing, and another one what it must.

mod changes;
mod commands;
mod conversations;
mod identity;
mod recorded;
