//! Storage of sessions: in memory, or in Redis to share them between gateways.

mod memory;
mod redis;
mod session_store;

pub use self::{
    memory::MemoryStore,
    redis::{RedisStore, StoreError},
    session_store::SessionStore,
};
