//! A gateway in the process of the tests, on free ports.

use std::{net::SocketAddr, path::PathBuf, sync::LazyLock};

use hookgate::{
    config::{Config, Registry},
    hook,
    server::Server,
    state::AppResources,
};
use serde_json::Value;
use tempfile::TempDir;
use tokio::task::JoinHandle;

use super::{Agent, Running, Upstream, until_dropped};

/// Compiles the schemas of configs once for all gateways, which saves these tests two fifths of
/// their CPU time.
static REGISTRY: LazyLock<Registry> = LazyLock::new(hook::registry);

/// A running gateway. Stops when dropped.
pub struct TestGateway {
    pub agents: SocketAddr,
    pub operators: SocketAddr,
    folder: TempDir,
    running: Running,
    served: JoinHandle<()>,
}

impl TestGateway {
    /// Starts a gateway with this config in YAML; see [`Self::with_files`].
    pub async fn start(upstream: &Upstream, config: &str) -> Self {
        Self::with_files(upstream, config, &[]).await
    }

    /// Starts a gateway with this config and files in its directory, which is also the
    /// working directory of hooks. `listen`, `admin` and `upstreams` are filled
    /// in unless the config has them; `{upstream}` is replaced by the base URL.
    pub async fn with_files(upstream: &Upstream, config: &str, files: &[(&str, &str)]) -> Self {
        let folder = TempDir::new().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let config = complete(config, &format!("http://{}", upstream.addr));
        let file = folder.path().join("hookgate.yaml");
        let config = Config::parse(&config, &file, &REGISTRY)
            .unwrap_or_else(|error| panic!("{error}\n{config}"));
        let server = Server::bind(config, AppResources::default()).await.unwrap();
        let (agents, operators) = (
            server.agents.local_addr().unwrap(),
            server.operators.local_addr().unwrap(),
        );
        let (running, dropped) = until_dropped();
        Self {
            agents,
            operators,
            folder,
            running,
            served: tokio::spawn(server.run(dropped)),
        }
    }

    /// Returns a client of the agents' listener.
    pub fn agent(&self) -> Agent {
        Agent::at(self.agents)
    }

    /// Returns a client of the admin listener.
    pub fn operator(&self) -> Agent {
        Agent::at(self.operators)
    }

    /// Returns the path of a file in the working directory of hooks.
    pub fn path(&self, file: &str) -> PathBuf {
        self.folder.path().join(file)
    }

    /// Reads a file in the working directory of hooks; empty if it does not exist.
    pub fn file(&self, file: &str) -> String {
        std::fs::read_to_string(self.path(file)).unwrap_or_default()
    }

    /// Reads a JSON file in the working directory of hooks.
    #[track_caller]
    pub fn json(&self, file: &str) -> Value {
        let text = self.file(file);
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {file}: {text}"))
    }

    /// Shuts down gracefully and waits for the end.
    pub async fn stop(self) {
        drop(self.stop_and_keep_files().await);
    }

    /// Shuts down like [`Self::stop`]. Returns the directory with all files.
    pub async fn stop_and_keep_files(self) -> TempDir {
        drop(self.running);
        self.served.await.unwrap();
        self.folder
    }
}

fn complete(config: &str, upstream: &str) -> String {
    let has = |key: &str| config.lines().any(|line| line.starts_with(key));
    let defaults = [
        ("listen:", "listen: 127.0.0.1:0\n"),
        ("admin:", "admin: { listen: 127.0.0.1:0 }\n"),
        (
            "upstreams:",
            "upstreams: { gemini: { url: \"{upstream}\" }, vertex: { url: \"{upstream}\" }, \
             code_assist: { url: \"{upstream}\" } }\n",
        ),
    ];
    let mut whole: String = defaults
        .iter()
        .filter(|(key, _)| !has(key))
        .map(|(_, line)| *line)
        .collect();
    whole.push_str(config);
    whole.replace("{upstream}", upstream)
}
