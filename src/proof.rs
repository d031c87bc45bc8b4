//! Proof that guards work: cases that a policy or hook must deny, allow or mask, run in
//! the gateway with its own processes and connections.
//!
//! A case becomes the events that the call or report would fire (`case`, `example_call`).
//! They are fired on the engine of the running config, with its whole selection, but for
//! the guard alone and without sinks, session and upstream (`case_run`). `expectation`
//! compares what came of it, and `guard_proofs` keeps the result of each guard.
//!
//! A case that is written differently from those of `hookgate test` is added in
//! `example_call`.

mod case;
mod case_file;
mod case_run;
mod example_call;
mod expectation;
mod guard_proof;
mod guard_proofs;
mod policy_probe;
mod stage;

pub use self::{guard_proof::GuardStatus, guard_proofs::GuardProofs, policy_probe::policy_denies};
