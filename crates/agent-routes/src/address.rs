//! Addresses of gateways, hosts and proxies.

use std::{fmt, net::IpAddr, str::FromStr};

use serde::{Serialize, Serializer};
use url::{Host, Url};

/// The port of a host that is named without one.
const HTTPS_PORT: u16 = 443;

/// TCP endpoint to which a URL leads.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address {
    /// Name in lower case, or IP address without brackets.
    pub host: String,
    /// The port of the URL, or the default one of its scheme.
    pub port: u16,
}

/// The text is neither a URL nor a host with an optional port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidAddress;

impl Address {
    /// Returns the address of HTTPS at a host.
    pub fn https(host: &str) -> Self {
        Self {
            host: host.to_ascii_lowercase(),
            port: HTTPS_PORT,
        }
    }

    /// Returns the address that a URL leads to, if it has one.
    pub fn of_url(url: &Url) -> Option<Self> {
        let host = match url.host()? {
            Host::Domain(name) => name.to_ascii_lowercase(),
            Host::Ipv4(address) => address.to_string(),
            Host::Ipv6(address) => address.to_string(),
        };
        let port = url.port_or_known_default()?;
        Some(Self { host, port })
    }

    /// Returns whether both lead to the same port of the same host. All names of the local host are
    /// equal.
    pub fn is_same(&self, other: &Self) -> bool {
        self.port == other.port
            && (self.host == other.host || (self.is_loopback() && other.is_loopback()))
    }

    fn is_loopback(&self) -> bool {
        let address: Result<IpAddr, _> = self.host.parse();
        self.host == "localhost" || address.is_ok_and(|address| address.is_loopback())
    }
}

impl FromStr for Address {
    type Err = InvalidAddress;

    /// Reads a URL, or a host with an optional port.
    fn from_str(text: &str) -> Result<Self, InvalidAddress> {
        let url = if text.contains("://") {
            text.parse()
        } else {
            format!("https://{text}").parse()
        };
        let url: Url = url.map_err(|_| InvalidAddress)?;
        Self::of_url(&url).ok_or(InvalidAddress)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(formatter, "[{}]:{}", self.host, self.port)
        } else {
            write!(formatter, "{}:{}", self.host, self.port)
        }
    }
}

impl Serialize for Address {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Display for InvalidAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("neither a URL nor a host with an optional port")
    }
}

impl std::error::Error for InvalidAddress {}

#[cfg(test)]
mod tests {
    use super::Address;

    #[test]
    fn urls_and_hosts_are_addresses() {
        for (text, address) in [
            ("https://API.openai.com/v1", "api.openai.com:443"),
            ("http://gateway:8787", "gateway:8787"),
            ("api.openai.com", "api.openai.com:443"),
            ("10.0.0.1:3128", "10.0.0.1:3128"),
            ("http://[::1]:8787/s/a", "[::1]:8787"),
        ] {
            let read: Address = text.parse().expect(text);
            assert_eq!(read.to_string(), address);
        }
        assert!("".parse::<Address>().is_err());
        assert!("unix:///run/x".parse::<Address>().is_err());
    }

    #[test]
    fn names_of_the_loopback_host_are_the_same_address() {
        let same = |one: &str, other: &str| {
            let [one, other]: [Address; 2] =
                [one, other].map(|text| text.parse().expect("an address"));
            one.is_same(&other)
        };
        assert!(same("http://localhost:8787", "http://127.0.0.1:8787/v1"));
        assert!(!same("http://localhost:8787", "http://127.0.0.1:8788"));
        assert!(!same("http://localhost:8787", "http://10.0.0.1:8787"));
    }
}
