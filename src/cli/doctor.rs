//! `hookgate doctor`: where the agents of this machine send their model calls.

use std::{env, fs, path::PathBuf, time::Duration};

use agent_routes::{Address, Machine, Reachability, Report, Verdict, Way};
use clap::Args;
use reqwest::{Certificate, Response};
use serde::Serialize;
use url::Url;

use super::{
    failure::Failure, output::print, runtime::block_on, service_arguments::ServiceUrlParser,
};
use crate::{
    middleware::RequestId,
    service_client::{client_builder, root_cause},
};

pub(super) const EXAMPLES: &str = "Examples:
  hookgate doctor --url https://hookgate.example:8787
  hookgate doctor --url https://hookgate.example:8787 --bypass --host openrouter.ai";

/// Time for the gateway's answer.
const GATEWAY_TIMEOUT: Duration = Duration::from_secs(10);

/// The variable with which agents on Node.js trust an authority beside the system's.
const NODE_AUTHORITIES: &str = "NODE_EXTRA_CA_CERTS";

/// Command-line arguments of `doctor`.
#[derive(Debug, Args)]
pub(super) struct DoctorArgs {
    /// URL of the gateway
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8787", value_parser = ServiceUrlParser)]
    url: Url,
    /// Try to connect to every host to which an agent may send its calls, directly and through
    /// the proxies of the environment
    #[arg(long)]
    bypass: bool,
    /// Another host to try, such as that of a compatible server
    #[arg(long = "host", value_name = "HOST[:PORT]", requires = "bypass")]
    hosts: Vec<Address>,
    /// Folder in which agents are started [default: the current one]
    #[arg(long, value_name = "PATH")]
    project: Option<PathBuf>,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

/// Result of the command, printed as JSON with `--json`.
#[derive(Debug, Serialize)]
struct Diagnosis {
    #[serde(flatten)]
    report: Report,
    /// Error of the request to the gateway; `None` if the gateway answers.
    gateway_error: Option<String>,
    /// Number of ways past the gateway.
    ways_out: usize,
    /// Number of ways to addresses that are not known and were not tried.
    unknown_ways: usize,
}

impl DoctorArgs {
    /// Prints all ways; fails if one of them passes the gateway, or the gateway is away.
    pub(super) fn run(self) -> Result<(), Failure> {
        let gateway = Address::of_url(&self.url)
            .ok_or_else(|| Failure::Failed("--url has no host".to_owned()))?;
        let machine = this_machine(self.project)?;
        let mut report = Report::read(&machine, gateway);
        for host in self.hosts {
            report.add_host(host);
        }
        let gateway_error = block_on(async {
            let error = probe_gateway(self.url).await.err();
            if self.bypass {
                report.probe_hosts(&machine).await;
            }
            Ok(error)
        })?;
        let diagnosis = Diagnosis {
            ways_out: report.ways_out(),
            unknown_ways: report.unknown_ways(),
            report,
            gateway_error,
        };
        if self.json {
            let json = serde_json::to_string_pretty(&diagnosis);
            print(&json.map_err(Failure::of)?)?;
        } else {
            print(&diagnosis.text(self.bypass))?;
        }
        diagnosis.failure().map_or(Ok(()), Err)
    }
}

fn this_machine(project: Option<PathBuf>) -> Result<Machine, Failure> {
    let project = match project {
        Some(project) => {
            let folder = fs::canonicalize(&project);
            let folder = folder.map_err(|error| Failure::at(&project, error))?;
            if !folder.is_dir() {
                return Err(Failure::at(&project, "it is not a directory"));
            }
            folder
        }
        None => env::current_dir()?,
    };
    let home = env::home_dir()
        .ok_or_else(|| Failure::Failed("the user has no home directory".to_owned()))?;
    let variables = env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    Ok(Machine {
        root: PathBuf::from("/"),
        home,
        project,
        environment: variables.collect(),
    })
}

impl Diagnosis {
    fn failure(&self) -> Option<Failure> {
        let problem = match (self.ways_out, &self.gateway_error) {
            (0, None) if self.unknown_ways > 0 => {
                "the address of some ways is not known".to_owned()
            }
            (0, None) if !self.is_complete() => {
                "the settings of some agents are not known".to_owned()
            }
            (0, None) if self.has_broken_way() => {
                "the base URL of some agents ends in a version that they append".to_owned()
            }
            (0, None) => return None,
            (0, Some(_)) => "the gateway does not answer".to_owned(),
            (1, _) => "1 way past the gateway".to_owned(),
            (count, _) => format!("{count} ways past the gateway"),
        };
        Some(Failure::Failed(problem))
    }

    /// Returns whether all settings and all addresses in them are known.
    fn is_complete(&self) -> bool {
        self.unknown_ways == 0 && self.report.unreadable.is_empty()
    }

    fn has_broken_way(&self) -> bool {
        let mut ways = self.report.ways.iter();
        ways.any(|way| way.verdict == Verdict::Broken)
    }

    fn text(&self, is_tried: bool) -> String {
        let report = &self.report;
        let mut lines = vec![match &self.gateway_error {
            None => format!("gateway {}: answers", report.gateway),
            Some(error) => format!("gateway {}: {error}", report.gateway),
        }];
        lines.extend(report.ways.iter().map(way_line));
        if is_tried {
            let hosts = report.hosts.iter();
            lines.extend(hosts.map(|host| host_line(&host.address, &host.reachability)));
        }
        let unreadable = report.unreadable.iter();
        lines.extend(unreadable.map(|entry| format!("{}: {}", entry.file.display(), entry.error)));
        if !report.absent.is_empty() {
            lines.push(format!("not on this machine: {}", report.absent.join(", ")));
        }
        if self.ways_out == 0 && self.is_complete() {
            lines.push("no way past the gateway was found".to_owned());
        }
        if !is_tried {
            lines.push("No host was tried. What agents can reach: --bypass".to_owned());
        }
        // Names in the settings of a project may hold control characters.
        let lines = lines.iter().map(|line| line.escape_debug().to_string());
        let lines: Vec<String> = lines.collect();
        lines.join("\n")
    }
}

fn way_line(way: &Way) -> String {
    let verdict = match way.verdict {
        Verdict::Gateway => "gateway",
        Verdict::Broken => "broken",
        Verdict::Out => "WAY OUT",
        Verdict::Closed => "closed",
        Verdict::Unknown => "not tried",
        Verdict::NotInEffect => "not in effect",
    };
    let to = way.to.as_ref().map(|to| format!("{to}, "));
    let to = to.unwrap_or_default();
    let mut line = format!(
        "{verdict:<13}  {}, {}: {to}{}",
        way.agent, way.login, way.because
    );
    let passes = matches!(way.verdict, Verdict::Out | Verdict::Unknown);
    for place in way.credentials.iter().filter(|_| passes) {
        line = format!("{line}; credential: {place}");
    }
    line
}

fn host_line(address: &Address, reachability: &Reachability) -> String {
    let verdict = match reachability {
        Reachability::Gateway => "gateway",
        Reachability::Closed(_) => "closed",
        _ => "WAY OUT",
    };
    let how = match reachability {
        Reachability::Directly(peer) => format!("{peer} accepts connections"),
        Reachability::Through(place) => format!("reached through the proxy of {place}"),
        Reachability::PerhapsThrough(place) => {
            format!("the proxy of {place} accepts connections; it was not tested further")
        }
        Reachability::Gateway => "the name leads to the gateway".to_owned(),
        Reachability::Untried => "not tried".to_owned(),
        Reachability::Closed(error) => error.clone(),
    };
    format!("{verdict:<13}  {address}: {how}")
}

/// Sends requests to the gateway, whose certificate must be one that agents trust. Returns
/// why there is no answer of a gateway.
async fn probe_gateway(mut url: Url) -> Result<(), String> {
    let mut client = client_builder().timeout(GATEWAY_TIMEOUT);
    if let Some(file) = env::var_os(NODE_AUTHORITIES).filter(|file| !file.is_empty()) {
        let pem = fs::read(file).map_err(|error| format!("{NODE_AUTHORITIES}: {error}"))?;
        let certificates = Certificate::from_pem_bundle(&pem);
        let certificates = certificates.map_err(|_| format!("{NODE_AUTHORITIES}: no PEM"))?;
        client = client.tls_certs_merge(certificates);
    }
    let client = client.build().map_err(root_cause)?;
    let header = RequestId::HEADER;
    let is_own = |answer: &Response| answer.headers().contains_key(&header);
    let answer = client.get(url.clone()).send().await.map_err(root_cause)?;
    if !is_own(&answer) {
        return Err(format!(
            "the answer is not that of hookgate: it has no `{header}`"
        ));
    }
    // Only the admin port has this path.
    url.set_path("/healthz");
    let health = client.get(url).send().await;
    if health.is_ok_and(|health| health.status().is_success() && is_own(&health)) {
        return Err("the port is that of the admin API, not that of agents".to_owned());
    }
    Ok(())
}
