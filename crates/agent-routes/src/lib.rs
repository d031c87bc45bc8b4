//! Where the AI agents of a machine send their model calls, and which of these ways are open.
//!
//! Each agent has a file in `agents`, which reads its environment and settings in the order of
//! their precedence. An address that is not the gateway's is a way out, and so is the host that
//! an agent calls without settings. [`Report::probe_hosts`] tries which of these hosts accept a
//! connection, directly and through the proxies of the environment. It sends nothing to a host,
//! and values of credentials are neither kept nor printed.
//!
#![doc = include_str!("../README.md")]

mod address;
mod agents;
mod probe;
mod report;
mod route;
mod settings;

pub use self::{
    address::{Address, InvalidAddress},
    probe::Reachability,
    report::{Host, Report, Verdict, Way},
    route::{Destination, Route},
    settings::{Machine, Place, Setting, Unreadable},
};
