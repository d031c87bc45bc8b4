//! `hookgate demo`: the gateway, a mock model API and example hooks, without a key or
//! network.

mod traffic;

use std::{
    env, fs, io,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use self::traffic::send_traffic;
use super::{
    failure::Failure,
    output::print,
    runtime::{block_on, shutdown_signals},
    serve,
};
use crate::{config::Overrides, hook, observe::LogGuard, server::Server, state::AppResources};
use mock_model_api::{self, MockConfig};

/// The config, whose model APIs are at [`MOCK`].
const CONFIG: &str = include_str!("../../config/examples/demo.yaml");

/// Address of the model APIs in the config.
const MOCK: &str = "127.0.0.1:9090";

/// Lines that are added to the config: what can be changed is recorded and kept.
const FOLDERS: &str = "\
sessions: { transcripts: transcripts }
record: { path: recordings, what: { sample: 1 }, redact: none }
revisions: { path: revisions }
";

/// The other files of the demo, from `config/examples`.
const FILES: [(&str, &str); 3] = [
    (
        "hooks/demo-guard.sh",
        include_str!("../../config/examples/hooks/demo-guard.sh"),
    ),
    (
        "hooks/demo-mask.sh",
        include_str!("../../config/examples/hooks/demo-mask.sh"),
    ),
    ("home/.gemini/settings.json", HOME_SETTINGS),
];

/// Settings with which gemini-cli starts in a new home without questions.
const HOME_SETTINGS: &str = r#"{
  "security": { "auth": { "selectedType": "gemini-api-key" }, "folderTrust": { "enabled": false } },
  "privacy": { "usageStatisticsEnabled": false },
  "general": { "enableAutoUpdate": false }
}
"#;

/// The address of the listener for agents, if the port is free.
const ADDR: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 8787);

/// Runs until SIGINT or SIGTERM.
pub(super) fn run() -> Result<(), Failure> {
    let folder = TemporaryDirectory::create();
    let folder = folder.map_err(|error| Failure::at(&env::temp_dir(), error))?;
    block_on(async {
        let shutdown = shutdown_signals(1)?;
        let mock = TcpListener::bind(loopback()).await?;
        let (server, _logging) = Box::pin(start(&folder.path, mock.local_addr()?)).await?;
        print(&greeting(&server, &folder.path)?)?;
        let agents = format!("http://{}", server.agents.local_addr()?);
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        tokio::join!(
            mock_model_api::serve(
                mock,
                mock_model_api::router(MockConfig::default()),
                stopped.cancelled_owned()
            ),
            async {
                server.run(shutdown).await;
                stop.cancel();
            },
            stop.run_until_cancelled(send_traffic(&agents)),
        );
        Ok(())
    })
}

async fn start(folder: &Path, mock: SocketAddr) -> Result<(Server, LogGuard), Failure> {
    let file = folder.join("demo.yaml");
    fs::create_dir(folder.join("transcripts"))?;
    fs::write(&file, config_text(mock).await)?;
    let source = serve::config_source(Some(file), Overrides::default(), None, hook::registry());
    let config = source.read()?;
    let logging = serve::start_logging(&config)?;
    let server = Server::bind_reloading(config, AppResources::default(), source).await?;
    Ok((server, logging))
}

/// Returns the config with the addresses of this demo, so that a change of the file is a reload.
async fn config_text(mock: SocketAddr) -> String {
    let free = TcpListener::bind(ADDR).await.is_ok();
    let listen = if free { ADDR } else { loopback() };
    let admin = loopback();
    let config = CONFIG.replace(MOCK, &mock.to_string());
    format!("{config}listen: {listen}\nadmin: {{ listen: \"{admin}\" }}\n{FOLDERS}")
}

/// Returns an address with any free port.
const fn loopback() -> SocketAddr {
    SocketAddr::new(ADDR.ip(), 0)
}

fn greeting(server: &Server, folder: &Path) -> Result<String, Failure> {
    let base = format!("http://{}", server.agents.local_addr()?);
    let admin = format!("http://{}", server.operators.local_addr()?);
    let folder = folder.display();
    Ok(format!(
        r#"hookgate is at {base}, with a mock model API behind it and three example hooks.
The console is at {admin}/console/ and shows the calls that the demo has made.
Its config is {folder}/demo.yaml, which is reloaded when it changes. Recordings are beside it.
Stop it with Ctrl-C, which removes all of its files. Paste any of these into another shell:

curl -s {base}/v1beta/models/gemini-2.5-pro:generateContent -H 'content-type: application/json' -d '{{"contents":[{{"role":"user","parts":[{{"text":"Write to ann@example.com"}}]}}]}}'

GEMINI_CLI_HOME={folder}/home GOOGLE_GEMINI_BASE_URL={base} GEMINI_API_KEY=demo npx -y @google/gemini-cli@0.61 -m gemini-2.5-pro --skip-trust -p 'Tell me about project aurora'

ANTHROPIC_BASE_URL={base} ANTHROPIC_API_KEY=demo npx -y @anthropic-ai/claude-code@2.1 -p 'Tell me about project aurora'

curl -s {base}/hookgate/v1/events -H 'content-type: application/json' -d '{{"hook_event_name":"BeforeTool","tool_name":"run_shell_command","tool_input":{{"command":"rm -rf /"}}}}'
"#
    ))
}

/// A temporary directory that is removed on drop.
struct TemporaryDirectory {
    path: PathBuf,
}

impl TemporaryDirectory {
    fn create() -> io::Result<Self> {
        // The console shows its path at each line of the config, so the name is short.
        let (number, ..) = Uuid::new_v4().as_fields();
        let path = env::temp_dir().join(format!("hookgate-demo-{number:08x}"));
        fs::create_dir(&path)?;
        let folder = Self { path };
        for (file, text) in FILES {
            let file = folder.path.join(file);
            if let Some(parent) = file.parent() {
                fs::create_dir_all(parent)?;
            }
            fs::write(file, text)?;
        }
        Ok(folder)
    }
}

impl Drop for TemporaryDirectory {
    fn drop(&mut self) {
        // A leftover in the temporary directory is harmless.
        let _ignored = fs::remove_dir_all(&self.path);
    }
}
