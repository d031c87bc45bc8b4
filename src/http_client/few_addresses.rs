//! Resolver of names to a few addresses, which share the time to connect.

use std::{
    io,
    net::SocketAddr,
    task::{Context, Poll},
    vec,
};

use futures_util::future::BoxFuture;
use hyper_util::client::legacy::connect::dns::{GaiResolver, Name};
use tower::Service;

/// Addresses of each version of IP that are tried. On a slow network, the share of each must
/// suffice to connect.
const MAX_ADDRESSES: usize = 3;

/// The system's resolver, of whose addresses the first are used.
#[derive(Debug, Clone)]
pub(super) struct FewAddresses(GaiResolver);

impl FewAddresses {
    pub(super) fn new() -> Self {
        Self(GaiResolver::new())
    }
}

impl Service<Name> for FewAddresses {
    type Response = vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<Self::Response>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let resolving = self.0.call(name);
        Box::pin(async move { Ok(first_addresses(&resolving.await?.collect::<Vec<_>>())) })
    }
}

/// Returns the first addresses of each version, those of the first address's version before.
fn first_addresses(addresses: &[SocketAddr]) -> vec::IntoIter<SocketAddr> {
    let preferred = addresses.first().is_some_and(SocketAddr::is_ipv6);
    let versions = [preferred, !preferred];
    let first = versions.iter().flat_map(|version| {
        let addresses = addresses.iter();
        let of_version = addresses.filter(move |address| address.is_ipv6() == *version);
        of_version.take(MAX_ADDRESSES).copied()
    });
    first.collect::<Vec<_>>().into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_addresses_of_both_versions_are_used() {
        let addresses: Vec<SocketAddr> = (1..9)
            .flat_map(|number| [format!("[::{number}]:0"), format!("10.0.0.{number}:0")])
            .map(|address| address.parse().unwrap())
            .collect();

        let used: Vec<String> = first_addresses(&addresses)
            .map(|address| address.ip().to_string())
            .collect();

        let expected = ["::1", "::2", "::3", "10.0.0.1", "10.0.0.2", "10.0.0.3"];
        assert_eq!(used, expected);
    }
}
