//! `hookgate serve`: the gateway.

use std::{io, net::SocketAddr, path::PathBuf, sync::Arc};

use clap::Args;
use url::Url;

use super::{Failure, asked_to_stop, block_on, complain, print, read};
use crate::{
    config::{Config, LogLevel, LogLineFormat, Overrides},
    event::EventName,
    hook,
    observe::{self, LogGuard},
    server::Server,
};

pub(super) const EXAMPLES: &str = "Examples:
  hookgate serve --config config/hookgate.yaml
  hookgate serve --upstream https://generativelanguage.googleapis.com --hooks .gemini/settings.json";

/// What `serve` is told; options outrank the file.
#[derive(Debug, Args)]
pub(super) struct Serve {
    /// The config file; without one, --upstream is needed.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where agents connect, instead of the config's.
    #[arg(long, value_name = "ADDR")]
    listen: Option<SocketAddr>,
    /// Where operators connect, instead of the config's.
    #[arg(long, value_name = "ADDR")]
    admin_listen: Option<SocketAddr>,
    /// The model API, instead of the config's.
    #[arg(long, value_name = "URL")]
    upstream: Option<Url>,
    /// A settings.json with hooks; may be given several times.
    #[arg(long, value_name = "SETTINGS.json")]
    hooks: Vec<PathBuf>,
}

impl Serve {
    pub(super) fn run(self) -> Result<(), Failure> {
        let overrides = Overrides {
            listen: self.listen,
            admin_listen: self.admin_listen,
            upstream: self.upstream,
            hooks: self.hooks,
            ..Overrides::default()
        };
        let read = move || read(self.config.as_ref(), &overrides);
        let config = read().map_err(Failure::BadConfig)?;
        warn(&config);
        let _logging = start_logging(&config);
        block_on(async {
            let (stop, hurry) = (asked_to_stop(1)?, asked_to_stop(2)?);
            let agents = scheme(config.tls.is_some());
            let operators = scheme(config.admin.tls.is_some());
            let server = Server::bind(config)?.reloading(Arc::new(read))?;
            print(&format!(
                "listening on {agents}://{}",
                server.agents_addr()?
            ))?;
            print(&format!(
                "admin on {operators}://{}",
                server.operators_addr()?
            ))?;
            server.run_until(stop, hurry).await;
            Ok(())
        })
    }
}

/// How an address is spoken to.
const fn scheme(tls: bool) -> &'static str {
    if tls { "https" } else { "http" }
}

/// Says what is allowed but probably not meant: what fails open, and what only
/// runs if agents lend a hand.
pub(super) fn warn(config: &Config) {
    for warning in &config.warnings {
        complain(&format!("warning: {warning}"));
    }
    for remark in hook::lints(config) {
        complain(&format!("warning: {remark}"));
    }
    let brought_about = |it: EventName| it.is_model_call() || config.events.derives(it);
    for event in config.hooks.keys().filter(|it| !brought_about(**it)) {
        let why = if event.is_derivable() {
            "`events.derive` leaves it out"
        } else {
            "no model call shows it"
        };
        complain(&format!(
            "warning: hooks on {event} run only for agents that report the event: {why}"
        ));
    }
    for (event, hook) in config.guards_that_fail_open() {
        complain(&format!(
            "warning: {}: hook `{}` on {event} fails open: if it fails, what it guards passes",
            hook.span,
            hook.label(),
        ));
    }
}

/// Whoever is given it keeps it until nobody is left who logs.
pub(super) fn start_logging(config: &Config) -> LogGuard {
    let format = match config.log.format {
        LogLineFormat::Text => observe::LogFormat::Text,
        LogLineFormat::Json => observe::LogFormat::Json,
    };
    let level = match config.log.level {
        LogLevel::Error => "error",
        LogLevel::Warn => "warn",
        LogLevel::Info => "info",
        LogLevel::Debug => "debug",
        LogLevel::Trace => "trace",
    };
    observe::init(format, level, io::stderr())
}
