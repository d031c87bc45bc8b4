//! From text to a config: find every problem, then build.

mod callers;
mod places;
mod upstreams;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use data_encoding::HEXLOWER;
use secrecy::SecretString;
use serde::de::DeserializeOwned;
use serde_json::Value;
use sha2::{Digest, Sha256};

use self::upstreams::put_upstreams;
use super::{
    Admin, Config, ConfigError, CoverageSettings, HookGroup, HookSettings, Known, MissingSecrets,
    Overrides, PolicySpec, Problem, RedisUrl, SystemMessages, When,
    hook_block::{Gathered, HookBlock, HookFile},
    otlp,
    raw::{RawConfig, RawPath, RawSecret},
    raw_bounds::DEFAULT_IN_FLIGHT,
    raw_hooks::{DEFAULT_PROTOCOL, RawHookDefaults, RawHookFile, RawHooks, RawSwitches},
    raw_policies::RawPolicy,
    raw_upstreams::Credentials,
    schema_validation::{UnknownKeys, check},
    secret,
    spanned_yaml::Tree,
    tls,
};
use crate::event::EventName;

/// Parses `text`, which was read from `file`, and reads what it names.
pub(super) fn load(
    text: &str,
    file: &Path,
    overrides: &Overrides,
    known: &Known,
) -> Result<Config, ConfigError> {
    let tree = Tree::parse(text, file)?;
    let value = tree.value();
    load_tree(tree, value, file, overrides, known)
}

/// The same for a document that is parsed already; `value` is all of it, or what
/// of it is a config.
pub(super) fn load_tree(
    tree: Tree,
    value: Value,
    file: &Path,
    overrides: &Overrides,
    known: &Known,
) -> Result<Config, ConfigError> {
    let mut reading = Reading::start((tree, value), file, overrides, known)?;
    let token = reading.secret("/admin/token");
    let credentials = Credentials::read(&mut reading);
    let callers = reading.callers();
    let (agents_tls, admin_tls) = tls::read_both(&mut reading);
    let hook_directory = reading.hook_directory();
    let (redis, transcripts) = (reading.redis(), reading.transcripts());
    let audit = reading.audit();
    let collector = otlp::read(&mut reading);
    let blocks = reading.hook_blocks(&overrides.hooks, known);
    reading.fail_if_problems()?;
    let version = version(&reading.value, &blocks);

    let raw: RawConfig = serde_json::from_value(reading.value.take())
        .map_err(|error| reading.disagreement(&error))?;
    let listen = overrides.listen.unwrap_or(raw.listen.0);
    let admin = Admin {
        listen: overrides.admin_listen.unwrap_or(raw.admin.listen.0),
        tls: admin_tls,
        token,
    };
    let upstreams = raw.upstreams.with(credentials);
    let coverage = CoverageSettings::from(raw.coverage);
    reading.check_upstreams(&upstreams, &coverage, known);
    reading.check_listeners(listen, &admin, &callers.auth);
    reading.warn_of_missing_keys(&callers.auth, &upstreams);
    reading.warn_of_plain_text(&callers.auth, &upstreams);
    reading.fail_if_problems()?;

    let policies = reading.policies(raw.policies);
    let own = (raw.hooks, raw.hooks_config);
    let hooks = reading.hooks(own, &blocks, &raw.hook_defaults)?;
    Ok(Config {
        listen,
        tls: agents_tls,
        admin,
        upstreams,
        coverage,
        auth: callers.auth,
        browsers: raw.browsers.into(),
        policies,
        caller_policies: callers.policies,
        hooks,
        hook_directory,
        denials: raw.denials,
        ask: raw.ask,
        after_model: raw.after_model,
        events: raw.events.into(),
        sessions: raw.sessions.checked(redis, transcripts),
        limits: raw.limits.into(),
        timeouts: raw.timeouts.into(),
        log: raw.log.into(),
        audit: raw.audit.zip(audit).map(|(raw, path)| raw.checked(path)),
        otlp: collector,
        version,
        files: reading.files,
        warnings: reading.warnings,
    })
}

/// Fetches a secret.
type Resolve = fn(&RawSecret, &Path, MissingSecrets) -> Result<SecretString, String>;

/// A document that was checked, and what is found while more is read.
#[derive(Debug)]
pub(super) struct Reading {
    tree: Tree,
    value: Value,
    /// What relative paths start from.
    directory: PathBuf,
    files: Vec<PathBuf>,
    problems: Vec<Problem>,
    warnings: Vec<Problem>,
    pub(super) missing_secrets: MissingSecrets,
}

impl Reading {
    fn start(
        (tree, mut value): (Tree, Value),
        file: &Path,
        overrides: &Overrides,
        known: &Known,
    ) -> Result<Self, ConfigError> {
        put_upstreams(&mut value, overrides)?;
        let checked = check::<RawConfig>(&tree, value, known, UnknownKeys::Refused);
        let mut files = Vec::new();
        if !file.as_os_str().is_empty() {
            files.push(file.to_owned());
        }
        Ok(Self {
            tree,
            value: checked.value,
            directory: file.parent().unwrap_or(Path::new("")).to_owned(),
            files,
            problems: checked.problems,
            warnings: checked.warnings,
            missing_secrets: overrides.missing_secrets,
        })
    }

    /// What stands at `pointer`, if it has the right shape; if it has not, the
    /// check has already said so.
    pub(super) fn section<T: DeserializeOwned>(&self, pointer: &str) -> Option<T> {
        serde_json::from_value(self.value.pointer(pointer)?.clone()).ok()
    }

    pub(super) fn problem(&mut self, pointer: &str, message: &str) {
        let place = self.tree.place(pointer);
        self.problems.push(Problem::at(&place, message));
    }

    /// A file that the config names: where it is. Its changes are watched for.
    pub(super) fn file(&mut self, path: &Path) -> PathBuf {
        let file = self.directory.join(path);
        self.files.push(file.clone());
        file
    }

    pub(super) fn warning(&mut self, pointer: &str, message: &str) {
        let place = self.tree.place(pointer);
        self.warnings.push(Problem::at(&place, message));
    }

    pub(super) fn secret(&mut self, pointer: &str) -> Option<SecretString> {
        self.resolved(pointer, secret::resolve)
    }

    /// All that a header holds.
    pub(super) fn header_secret(&mut self, pointer: &str) -> Option<SecretString> {
        self.resolved(pointer, secret::resolve_header)
    }

    fn resolved(&mut self, pointer: &str, resolve: Resolve) -> Option<SecretString> {
        let secret: RawSecret = self.section(pointer)?;
        if let RawSecret::File(path) = &secret {
            self.files.push(self.directory.join(path));
        }
        let secret = resolve(&secret, &self.directory, self.missing_secrets);
        secret.map_err(|it| self.problem(pointer, &it)).ok()
    }

    /// Where sessions are kept, if that is Redis. Where secrets are made up,
    /// nobody outside is asked, and sessions stay in memory.
    fn redis(&mut self) -> Option<RedisUrl> {
        let pointer = "/sessions/store/redis/url";
        let url = self.secret(pointer)?;
        if self.missing_secrets == MissingSecrets::MadeUp {
            return None;
        }
        let url = RedisUrl::parse(url);
        url.map_err(|it| self.problem(pointer, it)).ok()
    }

    fn policies(&mut self, raw: Vec<RawPolicy>) -> Vec<PolicySpec> {
        let mut specs = Vec::new();
        for (index, mut raw) in raw.into_iter().enumerate() {
            let pointer = format!("/policies/{index}");
            for name in secret::SETTINGS {
                let put = secret::put(
                    &mut raw.settings,
                    name,
                    &self.directory,
                    self.missing_secrets,
                );
                match put {
                    Ok(file) => self.files.extend(file),
                    Err(message) => self.problem(&format!("{pointer}/{name}"), &message),
                }
            }
            specs.push(PolicySpec {
                name: raw.name,
                policy: raw.policy,
                mode: raw.mode,
                when: raw.when.map(|text| When {
                    text,
                    place: self.tree.place(&format!("{pointer}/when")),
                }),
                settings: HookSettings(raw.settings),
                place: self.tree.place(&pointer),
            });
        }
        specs
    }

    /// The hooks of all settings files, and then those of the config itself, with
    /// its switches.
    fn hooks(
        &mut self,
        (raw, switches): (RawHooks, RawSwitches),
        blocks: &[HookBlock],
        defaults: &RawHookDefaults,
    ) -> Result<BTreeMap<EventName, Vec<HookGroup>>, ConfigError> {
        let own_block = HookBlock::own(self.tree.clone(), raw, switches);
        let mut gathered = Gathered::new(&self.directory, self.missing_secrets);
        for block in blocks.iter().chain([&own_block]) {
            gathered.add(block, defaults);
        }
        let hooks = gathered.finish(&own_block);
        self.files.extend(hooks.files);
        self.problems.extend(hooks.problems);
        self.warnings.extend(hooks.warnings);
        self.fail_if_problems()?;
        Ok(hooks.by_event)
    }

    /// The hooks of every settings file: those that the config names, then
    /// those of the command line.
    fn hook_blocks(&mut self, more: &[PathBuf], known: &Known) -> Vec<HookBlock> {
        let count = self.value.pointer("/hook_files").and_then(Value::as_array);
        let pointers = (0..count.map_or(0, Vec::len)).map(|it| format!("/hook_files/{it}"));
        let mut files = Vec::new();
        for pointer in pointers {
            let Some(raw) = self.section::<RawHookFile>(&pointer) else {
                continue;
            };
            files.push(HookFile {
                path: self.directory.join(raw.path.0),
                protocol: raw.protocol,
                system_messages: if raw.system_messages {
                    SystemMessages::Shown
                } else {
                    SystemMessages::Hidden
                },
                named_at: Some(self.tree.place(&format!("{pointer}/path"))),
            });
        }
        files.extend(more.iter().map(|path| HookFile {
            path: path.clone(),
            protocol: DEFAULT_PROTOCOL.to_owned(),
            system_messages: SystemMessages::Hidden,
            named_at: None,
        }));
        files
            .into_iter()
            .filter_map(|it| self.hook_block(it, known))
            .collect()
    }

    fn hook_block(&mut self, file: HookFile, known: &Known) -> Option<HookBlock> {
        if self.files.contains(&file.path) {
            let message = format!("`{}` is named twice", file.path.display());
            let place = file.named_at;
            self.problems.push(Problem { place, message });
            return None;
        }
        self.files.push(file.path.clone());
        match file.read(known) {
            Ok((block, warnings)) => {
                self.warnings.extend(warnings);
                Some(block)
            }
            Err(problems) => {
                self.problems.extend(problems);
                None
            }
        }
    }

    fn fail_if_problems(&mut self) -> Result<(), ConfigError> {
        if self.problems.is_empty() {
            return Ok(());
        }
        let mut problems = std::mem::take(&mut self.problems);
        problems.sort_by_key(|it| {
            let place = it.place.as_ref()?;
            let file = self.files.iter().position(|file| *file == place.file);
            Some((file, place.line, place.column))
        });
        problems.dedup();
        Err(ConfigError { problems })
    }

    /// The schema allows what the raw types refuse: a mistake of ours.
    fn disagreement(&self, error: &serde_json::Error) -> ConfigError {
        Problem::at(&self.tree.place(""), error.to_string()).into()
    }
}

/// What a config is known by. Secrets stand in neither of its parts.
fn version(config: &Value, blocks: &[HookBlock]) -> String {
    let parts = std::iter::once(config.to_string())
        .chain(blocks.iter().map(|it| it.tree.value().to_string()));
    let parts: Vec<String> = parts.collect();
    let mut version = HEXLOWER.encode(&Sha256::digest(parts.join("\0")));
    version.truncate(16);
    version
}
