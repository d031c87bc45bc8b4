//! aider, which calls models through LiteLLM: variables, `.env` files, which precede them, and
//! its own config, which precedes both.

use super::{Agent, hosts};
use crate::{
    route::{Destination, Route},
    settings::{Document, Format, Setting, SettingsReader},
};

pub(super) const AGENT: Agent = Agent {
    name: "aider",
    is_present: |reader| {
        let machine = reader.machine;
        machine.has_program("aider") || machine.home.join(".aider.conf.yml").is_file()
    },
    routes,
};

/// Model API, key of its base URL in the config, variables with it, variable with a key, host.
type Api = (
    &'static str,
    Option<&'static str>,
    &'static [&'static str],
    &'static str,
    &'static str,
);

const APIS: [Api; 3] = [
    (
        "Anthropic API",
        None,
        &["ANTHROPIC_API_BASE", "ANTHROPIC_BASE_URL"],
        "ANTHROPIC_API_KEY",
        hosts::ANTHROPIC,
    ),
    (
        "OpenAI API",
        Some("openai-api-base"),
        &["OPENAI_API_BASE", "OPENAI_BASE_URL"],
        "OPENAI_API_KEY",
        hosts::OPENAI,
    ),
    (
        "Gemini API",
        None,
        &["GEMINI_API_BASE"],
        "GEMINI_API_KEY",
        hosts::GEMINI,
    ),
];

fn routes(reader: &mut SettingsReader<'_>) -> Vec<Route> {
    let folders = reader.machine.folders_upwards();
    let mut read = |name: &str, format| {
        let files = folders.iter().map(|folder| folder.join(name));
        reader.read_files(files, format)
    };
    let configs = read(".aider.conf.yml", Format::Yaml);
    let variables = read(".env", Format::Variables);
    let machine = reader.machine;
    let find = |name: &str| -> Vec<Setting> {
        let set = configs.iter().filter_map(|file| set_env(file, name));
        let files = variables.iter().filter_map(|file| file.text(&[name]));
        set.chain(files).chain(machine.variable(name)).collect()
    };
    let route = |(login, key, names, credential, host): Api| {
        let own = key.map(|key| configs.iter().filter_map(move |file| file.text(&[key])));
        let own = own.into_iter().flatten();
        Route {
            settings: own
                .chain(names.iter().flat_map(|name| find(name)))
                .collect(),
            credentials: find(credential)
                .into_iter()
                .map(|setting| setting.place)
                .collect(),
            ..Route::new(login, Destination::https(host))
        }
    };
    APIS.map(route).into()
}

/// Returns a variable that the list `set-env` of a config sets.
fn set_env(config: &Document, name: &str) -> Option<Setting> {
    let lines = config.list(&["set-env"])?;
    let value = lines
        .iter()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix('='))?;
    Some(Setting {
        value: value.to_owned(),
        place: config.place(&["set-env"]),
    })
}
