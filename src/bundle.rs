//! Policy bundles: their checks, and gateways whose policies come from them.

mod check;
mod client;
mod follow;
mod offer;
mod replica;
mod store;

pub use self::{
    check::{BundleCheckError, check_guards, load_layers, run_tests},
    follow::follow,
    offer::OfferRefusal,
    replica::{Replica, ReplicaError},
    store::BundleStoreError,
};
