//! LLxprt Code: profiles with a base URL. An argument of its command line precedes them.

use super::{Agent, hosts};
use crate::{
    route::{Destination, Route},
    settings::{Document, Format, SettingsReader},
};

pub(super) const AGENT: Agent = Agent {
    name: "LLxprt Code",
    is_present: |reader| {
        let mut folders = FOLDERS.into_iter();
        folders.any(|folder| reader.machine.has_agent("llxprt", folder))
    },
    routes,
};

/// Folders of its config in the home directory: of older and of newer versions.
const FOLDERS: [&str; 2] = [".llxprt", ".config/llxprt-code"];

/// Name, host and variable with a key of each provider.
const PROVIDERS: [(&str, &str, &str); 4] = [
    ("anthropic", hosts::ANTHROPIC, "ANTHROPIC_API_KEY"),
    ("openai", hosts::OPENAI, "OPENAI_API_KEY"),
    ("openai-responses", hosts::OPENAI, "OPENAI_API_KEY"),
    ("gemini", hosts::GEMINI, "GEMINI_API_KEY"),
];

fn routes(reader: &mut SettingsReader<'_>) -> Vec<Route> {
    let profiles = profiles(reader);
    let machine = reader.machine;
    let mut routes: Vec<Route> = profiles
        .iter()
        .filter_map(|profile| {
            let provider = profile.text(&["provider"])?.value;
            let known = PROVIDERS.iter().find(|(name, ..)| *name == provider);
            let keys = ["auth-key", "auth-keyfile", "auth-key-name"];
            let keys = keys.into_iter();
            let keys = keys.filter_map(|key| profile.text(&["ephemeralSettings", key]));
            let base_url = profile.text(&["ephemeralSettings", "base-url"]);
            let default = known.map_or_else(
                || Destination::Unknown(format!("`{provider}` has a host of its own")),
                |(_, host, _)| Destination::https(host),
            );
            Some(Route {
                settings: base_url.into_iter().collect(),
                credentials: keys.map(|setting| setting.place).collect(),
                ..Route::new(format!("profile for {provider}"), default)
            })
        })
        .collect();
    routes.extend(PROVIDERS.map(|(provider, host, variable)| {
        let key = machine.variable(variable);
        Route {
            credentials: key.into_iter().map(|setting| setting.place).collect(),
            ..Route::new(format!("provider {provider}"), Destination::https(host))
        }
    }));
    routes
}

fn profiles(reader: &mut SettingsReader<'_>) -> Vec<Document> {
    let folders = FOLDERS.map(|folder| reader.machine.home.join(folder).join("profiles"));
    let read = folders
        .iter()
        .flat_map(|folder| reader.read_all(folder, ".json", Format::Json));
    read.collect()
}
