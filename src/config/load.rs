//! From text to a config: find every problem, then build.

mod callers;
mod upstreams;

use std::path::{Path, PathBuf};

use rustix::fs::Access;
use secrecy::SecretString;
use serde::de::DeserializeOwned;
use serde_json::Value;

use self::upstreams::put_upstreams;
use super::{
    Admin, Config, ConfigError, CoverageSettings, HookSettings, Known, Log, MissingSecrets,
    Overrides, PolicySpec, Problem, RedisUrl, SystemMessages, When,
    check::{UnknownKeys, check},
    hook_block::{Gathered, HookBlock, HookFile},
    raw::{DEFAULT_IN_FLIGHT, RawConfig, RawPath, RawSecret},
    raw_hooks::{DEFAULT_PROTOCOL, RawHookFile},
    raw_policies::RawPolicy,
    secret,
    tree::Tree,
};

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
    let credentials = reading.credentials();
    let callers = reading.callers();
    let hook_directory = reading.hook_directory();
    let (redis, transcripts) = (reading.redis(), reading.transcripts());
    let blocks = reading.hook_blocks(&overrides.hooks, known);
    reading.fail_if_problems()?;

    let raw: RawConfig = serde_json::from_value(reading.value.take())
        .map_err(|error| reading.disagreement(&error))?;
    let listen = overrides.listen.unwrap_or(raw.listen.0);
    let admin = Admin {
        listen: overrides.admin_listen.unwrap_or(raw.admin.listen.0),
        token,
    };
    let upstreams = raw.upstreams.with(credentials);
    let coverage = CoverageSettings::from(raw.coverage);
    reading.check_upstreams(&upstreams, &coverage, known);
    reading.check_listeners(listen, &admin, &callers.auth);
    reading.warn_of_missing_keys(&callers.auth, &upstreams);
    reading.fail_if_problems()?;

    let policies = reading.policies(raw.policies);
    let own_block = HookBlock {
        tree: reading.tree,
        raw: raw.hooks,
        switches: raw.hooks_config,
        enable_hooks: None,
        protocol: DEFAULT_PROTOCOL.to_owned(),
        system_messages: SystemMessages::Hidden,
    };
    let mut gathered = Gathered::new(&reading.directory, reading.missing_secrets);
    for block in blocks.iter().chain([&own_block]) {
        gathered.add(block, &raw.hook_defaults);
    }
    let hooks = gathered.finish(&own_block);
    reading.tree = own_block.tree;
    reading.files.extend(hooks.files);
    reading.problems.extend(hooks.problems);
    reading.warnings.extend(hooks.warnings);
    reading.fail_if_problems()?;
    Ok(Config {
        listen,
        admin,
        upstreams,
        coverage,
        auth: callers.auth,
        browsers: raw.browsers.into(),
        policies,
        caller_policies: callers.policies,
        hooks: hooks.by_event,
        hook_directory,
        denials: raw.denials,
        ask: raw.ask,
        after_model: raw.after_model,
        events: raw.events.into(),
        sessions: raw.sessions.checked(redis, transcripts),
        limits: raw.limits.into(),
        timeouts: raw.timeouts.into(),
        log: Log {
            format: raw.log.format,
            level: raw.log.level,
        },
        files: reading.files,
        warnings: reading.warnings,
    })
}

/// A document that was checked, and what is found while more is read.
#[derive(Debug)]
struct Reading {
    tree: Tree,
    value: Value,
    /// What relative paths start from.
    directory: PathBuf,
    files: Vec<PathBuf>,
    problems: Vec<Problem>,
    warnings: Vec<Problem>,
    missing_secrets: MissingSecrets,
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
    fn section<T: DeserializeOwned>(&self, pointer: &str) -> Option<T> {
        serde_json::from_value(self.value.pointer(pointer)?.clone()).ok()
    }

    fn problem(&mut self, pointer: &str, message: &str) {
        let place = self.tree.place(pointer);
        self.problems.push(Problem::at(&place, message));
    }

    fn warning(&mut self, pointer: &str, message: &str) {
        let place = self.tree.place(pointer);
        self.warnings.push(Problem::at(&place, message));
    }

    fn secret(&mut self, pointer: &str) -> Option<SecretString> {
        let secret: RawSecret = self.section(pointer)?;
        if let RawSecret::File(path) = &secret {
            self.files.push(self.directory.join(path));
        }
        let secret = secret::resolve(&secret, &self.directory, self.missing_secrets);
        secret.map_err(|it| self.problem(pointer, &it)).ok()
    }

    fn hook_directory(&mut self) -> PathBuf {
        let given: Option<RawPath> = self.section("/hook_directory");
        let given = given.map_or_else(PathBuf::new, |it| it.0);
        let directory = self.absolute(&given);
        if !directory.is_dir() {
            let message = format!("`hook_directory` is no directory: `{}`", given.display());
            self.problem("/hook_directory", &message);
        }
        directory
    }

    fn absolute(&self, given: &Path) -> PathBuf {
        let path = Path::new(".").join(&self.directory).join(given);
        let path = std::path::absolute(&path).unwrap_or(path);
        path.components().collect()
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

    fn transcripts(&mut self) -> Option<PathBuf> {
        let pointer = "/sessions/transcripts";
        let given: RawPath = self.section(pointer)?;
        let directory = self.absolute(&given.0);
        let needed = Access::WRITE_OK | Access::EXEC_OK;
        let problem = if !directory.is_dir() {
            "is no directory"
        } else if rustix::fs::access(&directory, needed).is_err() {
            "is a directory where no file can be made"
        } else {
            return Some(directory);
        };
        let message = format!("`sessions.transcripts` {problem}: `{}`", given.0.display());
        self.problem(pointer, &message);
        None
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
