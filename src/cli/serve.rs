//! `hookgate serve`: runs the gateway.

use std::{
    fs, io,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
};

use clap::Args;
use tokio_util::task::TaskTracker;
use url::Url;

use super::{
    failure::Failure,
    output::print,
    runtime::{block_on, ignore_fatal_signals, shutdown_signals},
};
use crate::{
    bundle::{Replica, ReplicaError},
    config::{
        Config, ConfigError, ConfigFiles, LogLevel, Overrides, PolicyLayer, Problem, Registry,
        SourceSettings,
    },
    hook,
    observe::{self, LogGuard},
    server::{self, Server, ServerError},
    state::{AppResources, BuildError, ConfigInput, ConfigSource, StoreLayers, end_tasks},
};

pub(super) const EXAMPLES: &str = "Examples:
  hookgate serve --config hookgate.yaml
  hookgate serve --upstream https://generativelanguage.googleapis.com --hooks .gemini/settings.json";

/// Name of a posted config in its problems.
const POSTED: &str = "posted config";

/// Arguments of `serve`. They take precedence over the config file.
#[derive(Debug, Args)]
pub(super) struct ServeArgs {
    /// Path of the config file; optional with --upstream
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Address of the listener for agents, overriding the config
    #[arg(long, value_name = "ADDR")]
    listen: Option<SocketAddr>,
    /// Address of the listener for operators, overriding the config
    #[arg(long, value_name = "ADDR")]
    admin_listen: Option<SocketAddr>,
    /// Base URL of the Gemini API, overriding the config
    #[arg(long, value_name = "URL")]
    upstream: Option<Url>,
    /// Path of a settings.json with hooks; can be repeated
    #[arg(long, value_name = "SETTINGS.json")]
    hooks: Vec<PathBuf>,
}

impl ServeArgs {
    pub(super) fn run(self) -> Result<(), Failure> {
        let overrides = Overrides {
            listen: self.listen,
            admin_listen: self.admin_listen,
            upstream: self.upstream,
            hooks: self.hooks,
            ..Overrides::default()
        };
        let registry = hook::registry();
        for file in &overrides.hooks {
            check_regular(file)?;
        }
        let first = read_file(self.config.as_deref(), &overrides, &registry)?;
        let replica = first.source.as_ref().map(Replica::open).transpose()?;
        let replica = replica.map(Arc::new);
        let bundles = first.source.clone();
        let mut source = config_source(self.config, overrides, bundles, registry);
        let first = match &replica {
            Some(replica) => {
                source = source.with_layers(store_layers(replica));
                first
            }
            None => source.read()?,
        };
        let _logging = start_logging(&first)?;
        block_on(async {
            ignore_fatal_signals()?;
            let (stop, abort) = (shutdown_signals(1)?, shutdown_signals(2)?);
            tokio::pin!(stop);
            let agents = scheme(first.tls.is_some());
            let operators = scheme(first.admin.tls.is_some());
            let tasks = TaskTracker::new();
            let server = tokio::select! {
                server = start(first, source, replica.as_deref(), &tasks) => server?,
                () = &mut stop => {
                    end_tasks(&tasks).await;
                    return Ok(());
                }
            };
            print(&format!(
                "listening on {agents}://{}",
                server.agents.local_addr()?
            ))?;
            print(&format!(
                "admin on {operators}://{}",
                server.operators.local_addr()?
            ))?;
            let server = server.with_replica(replica);
            server.run_until(stop, abort).await;
            Ok(())
        })
    }
}

/// Binds a server: with the stored bundles of `replica`, or with those of its servers if none are
/// stored or those have problems.
async fn start(
    first: Config,
    source: ConfigSource,
    replica: Option<&Replica>,
    tasks: &TaskTracker,
) -> Result<Server, Failure> {
    let bind = |config| {
        let tasks = tasks.clone();
        let resources = AppResources {
            tasks,
            ..AppResources::default()
        };
        Server::bind_reloading(config, resources, source.clone())
    };
    let Some(replica) = replica else {
        return Ok(bind(first).await?);
    };
    let handler = server::handle_agent_request;
    let mut refusal = None;
    match replica.stored_config(&source, handler).await {
        Ok(Some(config)) => match bind(config).await {
            Err(ServerError::Build(error @ (BuildError::Config(_) | BuildError::Proof(_)))) => {
                tracing::warn!(%error, "stored bundles refused");
                refusal = Some(ServerError::Build(error));
            }
            bound => return Ok(bound?),
        },
        Ok(None) => (),
        Err(error) => tracing::warn!(%error, "stored bundles refused"),
    }
    let config = match (replica.fetched_config(&source, handler).await, refusal) {
        // Without the server, the reason is that of the stored bundles.
        (Err(ReplicaError::Fetch(..)), Some(refusal)) => return Err(refusal.into()),
        (config, _) => config?,
    };
    Ok(bind(config).await?)
}

fn store_layers(replica: &Arc<Replica>) -> Arc<StoreLayers> {
    let replica = Arc::clone(replica);
    Arc::new(move |layers: &[PolicyLayer]| {
        let stored = replica.store(layers);
        stored.map_err(|error| error.to_string())
    })
}

/// Returns the source of a config that is read again at each reload. `bundles` is its `source`
/// at the start; `registry` keeps the compiled schemas from one reload to the next.
pub(super) fn config_source(
    file: Option<PathBuf>,
    overrides: Overrides,
    bundles: Option<SourceSettings>,
    registry: Registry,
) -> ConfigSource {
    let read = move |input: ConfigInput<'_>, layers: Vec<PolicyLayer>| {
        let read = |layers: Vec<PolicyLayer>| {
            let mut overrides = Overrides {
                layers,
                ..overrides.clone()
            };
            let mut file = file.as_deref();
            match &input {
                ConfigInput::File => (),
                ConfigInput::Other(other) => file = Some(other),
                ConfigInput::Stored(files) => overrides.stored = Some(Arc::clone(files)),
                ConfigInput::Posted(text) => {
                    return read_posted(file, text.clone(), overrides, &registry);
                }
            }
            read_file(file, &overrides, &registry)
        };
        let is_file = matches!(input, ConfigInput::File);
        let config = read(if is_file { layers.clone() } else { Vec::new() })?;
        // INVARIANT: a config with `source` is never in use, or compared, without its bundles.
        let [new, old] = [&config.source, &bundles]
            .map(|source| source.as_ref().map(SourceSettings::for_comparison));
        if is_file && new != old {
            let message = "`source` has changed: restart to apply".to_owned();
            let span = config.source.map(|source| source.span);
            return Err(Problem { span, message }.into());
        }
        if is_file || new.is_none() {
            return Ok(config);
        }
        if new != old {
            let message = "a shadow or rollout cannot have another `source`";
            return Err(Problem::without_span(message).into());
        }
        read(layers)
    };
    ConfigSource::new(Arc::new(read))
}

/// Reads a posted config, whose relative paths start from the directory of the config file.
fn read_posted(
    file: Option<&Path>,
    text: String,
    overrides: Overrides,
    registry: &Registry,
) -> Result<Config, ConfigError> {
    let posted = file.map_or_else(|| POSTED.into(), |file| file.with_file_name(POSTED));
    let overrides = Overrides {
        stored: Some(Arc::new(ConfigFiles::of_config(text))),
        ..overrides
    };
    let read = Config::load(&posted, &overrides, registry);
    read.map_err(|mut error| {
        let spans = error
            .problems
            .iter_mut()
            .flat_map(|problem| &mut problem.span);
        for span in spans.filter(|span| span.file == posted) {
            span.file = POSTED.into();
        }
        error
    })
}

/// Checks that a config or settings file can be read again, which a pipe cannot. A missing file
/// is reported when it is read.
fn check_regular(file: &Path) -> Result<(), ConfigError> {
    if fs::metadata(file).is_ok_and(|metadata| !metadata.is_file()) {
        let message = format!(
            "`{}` is not a regular file: the config is read again at each reload",
            file.display()
        );
        return Err(Problem::without_span(message).into());
    }
    Ok(())
}

fn read_file(
    file: Option<&Path>,
    overrides: &Overrides,
    registry: &Registry,
) -> Result<Config, ConfigError> {
    match file {
        Some(file) => {
            // It may have been replaced since the start.
            if overrides.stored.is_none() {
                check_regular(file)?;
            }
            Config::load(file, overrides, registry)
        }
        None => Config::without_file(overrides, registry),
    }
}

const fn scheme(tls: bool) -> &'static str {
    if tls { "https" } else { "http" }
}

/// Starts logging. Keep the guard until the last log line is written.
pub(super) fn start_logging(config: &Config) -> Result<LogGuard, Failure> {
    let level = match config.log.level {
        LogLevel::Error => "error",
        LogLevel::Warn => "warn",
        LogLevel::Info => "info",
        LogLevel::Debug => "debug",
        LogLevel::Trace => "trace",
    };
    Ok(observe::init(config.log.format, level, io::stderr())?)
}
