//! Attempts to reach hosts, directly and through proxies.

use std::{collections::BTreeMap, io, net::SocketAddr, time::Duration};

use data_encoding::BASE64;
use futures_util::future::join_all;
use percent_encoding::percent_decode_str;
use serde::Serialize;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpStream, lookup_host},
    time::timeout,
};
use url::Url;

use crate::{
    address::Address,
    settings::{Machine, Setting, SettingPosition},
};

/// Time for one attempt: lookup of the name, connection and answer of a proxy.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum size of the head of a proxy's answer.
const MAX_PROXY_ANSWER_BYTES: u64 = 8 * 1024;

/// Variables that name proxies.
const PROXY_VARIABLES: [&str; 6] = [
    "HTTPS_PROXY",
    "https_proxy",
    "ALL_PROXY",
    "all_proxy",
    "HTTP_PROXY",
    "http_proxy",
];

/// Result of probing a host, with the address or proxy of the connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "reached", content = "by")]
pub enum Reachability {
    /// A connection to this address of the host was accepted.
    Directly(SocketAddr),
    /// The proxy that a variable names opened a tunnel to the host.
    Through(SettingPosition),
    /// The proxy accepts connections, and was not tested further because it speaks no plain HTTP.
    PerhapsThrough(SettingPosition),
    /// The name leads to the gateway, and no proxy opens a tunnel to the host.
    Gateway,
    /// It was not tried.
    Untried,
    /// None of the attempts succeeded; the reason of the direct one.
    Closed(String),
}

/// A proxy of the environment.
#[derive(Debug, Clone)]
struct Proxy {
    address: Address,
    speaks_http: bool,
    /// Value of the header `proxy-authorization`.
    authorization: Option<String>,
    place: SettingPosition,
}

impl Reachability {
    /// Returns whether the host is reached without the gateway.
    pub fn is_open(&self) -> bool {
        match self {
            Self::Directly(_) | Self::Through(_) | Self::PerhapsThrough(_) => true,
            Self::Gateway | Self::Untried | Self::Closed(_) => false,
        }
    }
}

/// Tries each host, all at once.
pub(crate) async fn probe(
    hosts: Vec<Address>,
    gateway: &Address,
    machine: &Machine,
) -> BTreeMap<Address, Reachability> {
    let proxies: Vec<Proxy> = proxies(machine);
    let gateway = addresses(gateway).await.unwrap_or_default();
    let attempts = hosts.into_iter().map(|host| async {
        let reachability = attempt(&host, &gateway, &proxies).await;
        (host, reachability)
    });
    join_all(attempts).await.into_iter().collect()
}

async fn attempt(host: &Address, gateway: &[SocketAddr], proxies: &[Proxy]) -> Reachability {
    let without_proxy = match within_deadline(open(host)).await {
        // A proxy may resolve the name differently.
        Ok((peer, _)) if gateway.contains(&peer) => Reachability::Gateway,
        Ok((peer, _)) => return Reachability::Directly(peer),
        Err(error) => Reachability::Closed(error),
    };
    for proxy in proxies {
        if within_deadline(proxy.tunnel(host)).await.is_ok() {
            let place = proxy.place.clone();
            return if proxy.speaks_http {
                Reachability::Through(place)
            } else {
                Reachability::PerhapsThrough(place)
            };
        }
    }
    without_proxy
}

async fn within_deadline<T>(attempt: impl Future<Output = io::Result<T>>) -> Result<T, String> {
    match timeout(ATTEMPT_TIMEOUT, attempt).await {
        Ok(result) => result.map_err(|error| error.to_string()),
        Err(_) => Err(format!("no answer within {} s", ATTEMPT_TIMEOUT.as_secs())),
    }
}

async fn addresses(address: &Address) -> io::Result<Vec<SocketAddr>> {
    let found = lookup_host((address.host.as_str(), address.port));
    Ok(timeout(ATTEMPT_TIMEOUT, found).await??.collect())
}

/// Connects to the first address of a host that accepts it. The attempts run at once: a filter
/// that drops packets would let the first take all of the time.
async fn open(host: &Address) -> io::Result<(SocketAddr, TcpStream)> {
    let attempts = addresses(host).await?.into_iter().map(|peer| async move {
        let stream = TcpStream::connect(peer).await?;
        Ok((peer, stream))
    });
    let attempts: Vec<_> = attempts.map(Box::pin).collect();
    if attempts.is_empty() {
        return Err(io::Error::other("the name has no address"));
    }
    let first = futures_util::future::select_ok(attempts).await;
    first.map(|(connection, _)| connection)
}

impl Proxy {
    fn read(setting: Setting) -> Option<Self> {
        let text = setting.value;
        let url = if text.contains("://") {
            text
        } else {
            format!("http://{text}")
        };
        let url: Url = url.parse().ok()?;
        let decode = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        let credential = format!(
            "{}:{}",
            decode(url.username()),
            decode(url.password().unwrap_or_default())
        );
        let has_credential = !url.username().is_empty();
        // Proxies of SOCKS have no default port among those of the URL standard.
        let address = Address::of_url(&url).or_else(|| {
            let host = url.host_str()?.to_ascii_lowercase();
            let port = url.port().unwrap_or(1080);
            Some(Address { host, port })
        });
        Some(Self {
            address: address?,
            speaks_http: url.scheme() == "http",
            authorization: has_credential
                .then(|| format!("Basic {}", BASE64.encode(credential.as_bytes()))),
            place: setting.place,
        })
    }

    /// Opens a tunnel to a host, if the proxy speaks plain HTTP, or else a connection to the
    /// proxy.
    async fn tunnel(&self, host: &Address) -> io::Result<()> {
        let (_, mut stream) = open(&self.address).await?;
        if !self.speaks_http {
            return Ok(());
        }
        let authorization = self.authorization.as_ref();
        let authorization = authorization
            .map(|value| format!("proxy-authorization: {value}\r\n"))
            .unwrap_or_default();
        let request = format!("CONNECT {host} HTTP/1.1\r\nhost: {host}\r\n{authorization}\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = stream.take(MAX_PROXY_ANSWER_BYTES);
        let mut status = [0; "HTTP/1.1 2".len()];
        answer.read_exact(&mut status).await?;
        if status.starts_with(b"HTTP/1.") && status.ends_with(b" 2") {
            Ok(())
        } else {
            Err(io::Error::other("the proxy refused"))
        }
    }
}

/// Returns the proxies of the environment, each address once.
fn proxies(machine: &Machine) -> Vec<Proxy> {
    let names = PROXY_VARIABLES.into_iter();
    let settings = names.filter_map(|name| machine.variable(name));
    let mut proxies: Vec<Proxy> = Vec::new();
    for proxy in settings.filter_map(Proxy::read) {
        if proxies.iter().all(|other| other.address != proxy.address) {
            proxies.push(proxy);
        }
    }
    proxies
}
