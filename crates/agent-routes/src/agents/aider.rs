//! aider, which calls models through LiteLLM: variables, `.env` files, which precede them, its
//! own config, which precedes both, and variables of its own (`AIDER_…`), which precede all but
//! `OPENAI_BASE_URL`.

use std::path::Path;

use super::{Agent, hosts};
use crate::{
    route::{Destination, Route},
    settings::{Document, Format, Machine, Setting, SettingsReader},
};

pub(super) const AGENT: Agent = Agent {
    name: "aider",
    is_present: |reader| {
        let machine = reader.machine;
        machine.has_program("aider") || machine.home.join(".aider.conf.yml").is_file()
    },
    routes,
};

/// Model API, variables with its base URL in the order of LiteLLM, variable with a key, host.
type Api = (
    &'static str,
    &'static [&'static str],
    &'static str,
    &'static str,
);

const APIS: [Api; 3] = [
    (
        "Anthropic API",
        &["ANTHROPIC_API_BASE", "ANTHROPIC_BASE_URL"],
        "ANTHROPIC_API_KEY",
        hosts::ANTHROPIC,
    ),
    (
        "OpenAI API",
        &["OPENAI_BASE_URL", "OPENAI_API_BASE"],
        "OPENAI_API_KEY",
        hosts::OPENAI,
    ),
    (
        "Gemini API",
        &["GEMINI_API_BASE"],
        "GEMINI_API_KEY",
        hosts::GEMINI,
    ),
];

/// The only base URL that aider has an option for: its variable and its key in the config.
const BASE_URL_OPTION: (&str, &str) = ("OPENAI_API_BASE", "openai-api-base");

/// Files of aider in the order of their precedence, and the environment.
struct AiderSettings<'a> {
    configs: Vec<Document>,
    env_files: Vec<Document>,
    machine: &'a Machine,
}

fn routes(reader: &mut SettingsReader<'_>) -> Vec<Route> {
    let settings = AiderSettings::read(reader);
    let route = |(login, names, credential, host): Api| {
        let addresses = names.iter().flat_map(|name| settings.variable(name));
        let credentials = settings.variable(credential);
        Route {
            settings: addresses.collect(),
            credentials: credentials.map(|setting| setting.place).collect(),
            ..Route::new(login, Destination::https(host))
        }
    };
    APIS.map(route).into()
}

impl<'a> AiderSettings<'a> {
    fn read(reader: &mut SettingsReader<'a>) -> Self {
        let machine = reader.machine;
        let home = machine.home.as_path();
        let project = machine.project.as_path();
        let root = machine.repository().unwrap_or(project);
        let mut read = |folders: [&Path; 3], name: &str, format| {
            let files = folders.map(|folder| folder.join(name));
            reader.read_files(files, format)
        };
        Self {
            configs: read([project, root, home], ".aider.conf.yml", Format::Yaml),
            // That of the repository is the default of `--env-file`, which precedes the others.
            env_files: read([root, project, home], ".env", Format::Variables),
            machine,
        }
    }

    /// Returns the values of a variable when aider calls a model. Its option precedes it, unless
    /// that is empty.
    fn variable(&self, name: &str) -> impl Iterator<Item = Setting> {
        let (with_option, key) = BASE_URL_OPTION;
        let option = (name == with_option).then(|| self.option(key));
        let option = option.into_iter().flatten();
        let assigned = self.set_env(name).into_iter().chain(self.inherited(name));
        option.chain(Setting::until_empty(assigned))
    }

    /// Returns the values of an option, which a variable of its name precedes.
    fn option(&self, key: &str) -> impl Iterator<Item = Setting> {
        let name = format!("AIDER_{}", key.replace('-', "_").to_uppercase());
        let configured = self.configs.iter();
        let configured = configured.filter_map(|file| file.assignment(&[key]));
        Setting::until_empty(self.inherited(&name).into_iter().chain(configured))
    }

    /// Returns the assignments of a variable when aider reads its options.
    fn inherited(&self, name: &str) -> Vec<Setting> {
        let files = self.env_files.iter();
        let files = files.filter_map(|file| file.assignment(&[name]));
        files.chain(self.machine.assignment(name)).collect()
    }

    /// Returns the variable that the first list `set-env` of a config sets; its last line counts.
    fn set_env(&self, name: &str) -> Option<Setting> {
        let mut lists = self.configs.iter();
        let (config, lines) = lists.find_map(|file| Some((file, file.list(&["set-env"])?)))?;
        let assignments = lines.iter().filter_map(|line| line.split_once('='));
        let (_, value) = assignments.rev().find(|(set, _)| set.trim() == name)?;
        Some(Setting {
            value: value.trim().to_owned(),
            place: config.place(&["set-env"]),
        })
    }
}
