//! The pages: one file each, with its handlers and its markup.

pub(super) mod call;
pub(super) mod calls;
pub(super) mod changes;
pub(super) mod config;
pub(super) mod coverage;
pub(super) mod denials;
pub(super) mod fleet;
pub(super) mod overview;
pub(super) mod rules;
pub(super) mod sessions;
pub(super) mod try_it;
