//! Report on the ways that model calls of a machine's agents take.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::{
    address::Address,
    agents::{self, AGENTS},
    probe::{self, Reachability},
    route::{Destination, Route},
    settings::{Machine, Setting, SettingPosition, SettingsReader, Unreadable},
};

/// Variables of base URLs to which agents and SDKs append the version of the API.
const BASE_URLS_WITHOUT_VERSION: [&str; 2] = ["ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL"];

/// Versions of APIs at the end of a base URL.
const VERSIONS: [&str; 2] = ["/v1", "/v1beta"];

/// Destinations of the model calls that the agents of a machine send.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Address of the gateway.
    pub gateway: Address,
    /// All ways of the agents that are on the machine.
    pub ways: Vec<Way>,
    /// All hosts of model APIs and of settings, if they were tried.
    pub hosts: Vec<Host>,
    /// Files with settings that are not known.
    pub unreadable: Vec<Unreadable>,
    /// Agents that are not on the machine.
    pub absent: Vec<&'static str>,
}

/// Way of the calls of an agent with one kind of login.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Way {
    /// Name of the agent.
    pub agent: &'static str,
    /// Kind of login, or the model API.
    pub login: String,
    /// Destination of the calls, if it is known.
    pub to: Option<Address>,
    /// The place of the setting with that address, or why there is none.
    pub because: String,
    /// Classification of the destination: the gateway, or another host and its reachability.
    pub verdict: Verdict,
    /// Places of credentials with which the model API itself can be called.
    pub credentials: Vec<SettingPosition>,
}

/// Destination of the calls on a way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Calls go to the gateway.
    Gateway,
    /// Calls go to the gateway, which refuses them: the base URL ends in a version that the agent
    /// appends.
    Broken,
    /// Calls go elsewhere, past the gateway.
    Out,
    /// Calls would go elsewhere, and the network does not let them.
    Closed,
    /// Calls go to an address that is not known, so that it was not tried.
    Unknown,
    /// Another setting precedes this one, or does not allow the login.
    NotInEffect,
}

/// A host, and whether it was reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Host {
    /// Host name and port, on which the host may or may not listen.
    pub address: Address,
    /// Result of probing the host.
    #[serde(flatten)]
    pub reachability: Reachability,
}

impl Report {
    /// Reads the settings of all agents on a machine. Connects to nothing.
    pub fn read(machine: &Machine, gateway: Address) -> Self {
        let mut reader = SettingsReader {
            machine,
            unreadable: Vec::new(),
        };
        let mut ways = Vec::new();
        let mut hosts: BTreeSet<Address> = agents::addresses().collect();
        let mut absent = Vec::new();
        for agent in AGENTS {
            let routes = (agent.routes)(&mut reader);
            for route in &routes {
                hosts.extend(route.addresses());
            }
            if (agent.is_present)(&reader) {
                let ways_of = |route: &Route| route.ways(agent.name, &gateway);
                ways.extend(routes.iter().flat_map(ways_of));
            } else {
                absent.push(agent.name);
            }
        }
        hosts.retain(|address| !address.is_same(&gateway));
        let unreadable: BTreeSet<_> = reader.unreadable.into_iter().collect();
        let untried = |address| Host {
            address,
            reachability: Reachability::Untried,
        };
        Self {
            gateway,
            ways,
            hosts: hosts.into_iter().map(untried).collect(),
            unreadable: unreadable.into_iter().collect(),
            absent,
        }
    }

    /// Adds a host to those that are tried.
    pub fn add_host(&mut self, address: Address) {
        if self.hosts.iter().all(|host| host.address != address) {
            let reachability = Reachability::Untried;
            self.hosts.push(Host {
                address,
                reachability,
            });
        }
    }

    /// Tries to reach every host. A way to a host that cannot be reached is closed.
    pub async fn probe_hosts(&mut self, machine: &Machine) {
        let addresses = self.hosts.iter().map(|host| host.address.clone()).collect();
        let mut reached = probe::probe(addresses, &self.gateway, machine).await;
        for host in &mut self.hosts {
            if let Some(reachability) = reached.remove(&host.address) {
                host.reachability = reachability;
            }
        }
        let ways = self.ways.iter_mut();
        for way in ways.filter(|way| way.verdict == Verdict::Out) {
            let mut hosts = self.hosts.iter();
            let host = hosts.find(|host| way.to.as_ref() == Some(&host.address));
            way.verdict = match host.map(|host| &host.reachability) {
                Some(Reachability::Gateway) => Verdict::Gateway,
                Some(Reachability::Closed(_)) => Verdict::Closed,
                Some(_) => Verdict::Out,
                None => Verdict::Unknown,
            };
        }
    }

    /// Returns the number of ways past the gateway: of agents, and hosts that are reached
    /// although no agent calls them now.
    pub fn ways_out(&self) -> usize {
        let ways = self.ways.iter().filter(|way| way.verdict == Verdict::Out);
        let ways: Vec<_> = ways.collect();
        let is_called = |host: &Host| {
            ways.iter()
                .any(|way| way.to.as_ref() == Some(&host.address))
        };
        let hosts = self.hosts.iter().filter(|host| host.reachability.is_open());
        ways.len() + hosts.filter(|host| !is_called(host)).count()
    }

    /// Returns the number of ways to addresses that are not known. They are only found by
    /// [`Self::probe_hosts`]: without it, they count as ways past the gateway.
    pub fn unknown_ways(&self) -> usize {
        let ways = self.ways.iter();
        ways.filter(|way| way.verdict == Verdict::Unknown).count()
    }
}

impl Route {
    /// Returns all addresses to which calls may go.
    fn addresses(&self) -> impl Iterator<Item = Address> {
        let settings = self.settings.iter().chain(&self.alternatives);
        let settings = settings.filter_map(|setting| setting.value.parse().ok());
        let default = match &self.default {
            Destination::Hosts(hosts) => hosts.as_slice(),
            Destination::Unknown(_) => &[],
        };
        settings.chain(default.iter().cloned())
    }

    /// Returns a way for each setting, or that without settings.
    fn ways(&self, agent: &'static str, gateway: &Address) -> Vec<Way> {
        let way = |to: Option<Address>, because, is_effective: bool| {
            let goes_to_gateway = to.as_ref().is_some_and(|address| address.is_same(gateway));
            Way {
                agent,
                login: self.login.clone(),
                verdict: match (is_effective, goes_to_gateway) {
                    (false, _) => Verdict::NotInEffect,
                    (true, true) => Verdict::Gateway,
                    (true, false) => Verdict::Out,
                },
                to,
                because,
                credentials: self.credentials.clone(),
            }
        };
        if let Some(place) = &self.disabled_by {
            return vec![way(None, format!("not allowed by {place}"), false)];
        }
        let of_setting = |setting: &Setting, is_effective| {
            let to = setting.value.parse().ok();
            let mut way = way(to, setting.place.to_string(), is_effective);
            if let (Verdict::Gateway, Some(version)) = (way.verdict, repeated_version(setting)) {
                way.verdict = Verdict::Broken;
                way.because = format!("{}, which must not end in `{version}`", way.because);
            }
            way
        };
        let settings = self.settings.iter().enumerate();
        let ways = settings.map(|(index, setting)| of_setting(setting, index == 0));
        let mut ways: Vec<Way> = ways.collect();
        if ways.is_empty() {
            match &self.default {
                Destination::Hosts(hosts) => ways.extend(hosts.iter().map(|host| {
                    let because = "no setting names another address".to_owned();
                    way(Some(host.clone()), because, true)
                })),
                Destination::Unknown(why) => ways.push(way(None, why.clone(), true)),
            }
        }
        let alternatives = self.alternatives.iter();
        ways.extend(alternatives.map(|setting| of_setting(setting, false)));
        ways
    }
}

/// Returns the version at the end of a base URL to which the agent appends it.
fn repeated_version(setting: &Setting) -> Option<&'static str> {
    let variable = setting.place.key.rsplit('.').next()?;
    let base_url = setting.value.trim_end_matches('/');
    let mut versions = VERSIONS.into_iter();
    versions
        .find(|version| base_url.ends_with(version))
        .filter(|_| BASE_URLS_WITHOUT_VERSION.contains(&variable))
}
