//! The shadow: another config that evaluates live calls after they have ended, without an effect on
//! them.
//!
//! [`run_shadow`] is the task of the gateway that starts and ends shadows: that of the config
//! file, and those of operators. A sink collects the exchanges as for a recording, and a thread
//! replays them one by one by [`crate::replay`], so that the report is that of a replay of the same
//! calls. This module must not delay a call, or write to what is live: sessions, headers, decisions.

mod collection;
mod cpu_pace;
mod evaluator;
mod task;
mod worker;

pub use self::task::run_shadow;
