//! Destinations of the model calls of a machine's AI agents, and their reachability.
//!
//! Each agent has a file in `agents`, which reads its environment and settings in the order of
//! their precedence. An address other than the gateway's bypasses the gateway, and so does the
//! host that an agent calls without settings. [`Report::probe_hosts`] tests which of these hosts
//! accept a connection, directly and through the proxies of the environment. It sends nothing to
//! a host, and values of credentials are neither kept nor printed.
//!
#![doc = include_str!("../README.md")]

mod address;
mod agents;
mod env_file;
mod probe;
mod report;
mod route;
mod settings;

pub use self::{
    address::{Address, InvalidAddress},
    probe::Reachability,
    report::{Host, Report, Verdict, Way},
    route::{Destination, Route},
    settings::{Machine, Setting, SettingPosition, Unreadable},
};
