//! Codex: the provider of its config, whose own variable of a base URL it ignores.

use super::{Agent, hosts};
use crate::{
    route::{Destination, Route},
    settings::{Document, Format, Setting, SettingPosition, SettingsReader},
};

pub(super) const AGENT: Agent = Agent {
    name: "Codex",
    is_present: |reader| reader.machine.has_agent("codex", ".codex"),
    routes,
};

/// The provider without a setting.
const BUILT_IN_PROVIDER: &str = "openai";

fn routes(reader: &mut SettingsReader<'_>) -> Vec<Route> {
    let files = config_files(reader);
    let provider = files.iter().find_map(|file| file.text(&["model_provider"]));
    let name = provider
        .as_ref()
        .map_or(BUILT_IN_PROVIDER, |provider| &provider.value);
    let settings = files.iter().filter_map(|file| base_url(file, name));
    let settings: Vec<Setting> = settings.collect();
    // Other providers of the config and those of profiles, which arguments select.
    let profiles = profiles(reader);
    let others = files.iter().chain(&profiles).flat_map(|file| {
        let providers = file.entries(&["model_providers"]);
        providers.filter_map(|(other, _)| base_url(file, other))
    });
    let others = others.filter(|setting| !settings.contains(setting));
    let others: Vec<Setting> = others.collect();
    let is_built_in = name == BUILT_IN_PROVIDER;
    let machine = reader.machine;
    let file = machine.folder("CODEX_HOME", ".codex").join("auth.json");
    let keys = ["OPENAI_API_KEY", "CODEX_API_KEY"].into_iter();
    let keys = keys.filter_map(|name| machine.variable(name));
    let keys = keys.map(|setting| setting.place).collect();
    let login = SettingPosition::of_file(file).into_iter().collect();
    let logins = [
        ("API key", hosts::OPENAI, keys),
        ("ChatGPT login", hosts::CHATGPT, login),
    ];
    let default = |host: &str| {
        if is_built_in {
            Destination::https(host)
        } else {
            Destination::Unknown(format!("provider `{name}` has no base_url"))
        }
    };
    let route = |(login, host, credentials): (&str, &str, Vec<SettingPosition>)| Route {
        settings: settings.clone(),
        alternatives: others.clone(),
        credentials,
        ..Route::new(login, default(host))
    };
    logins.map(route).into()
}

/// Returns the setting of a provider's base URL.
fn base_url(file: &Document, provider: &str) -> Option<Setting> {
    let own = file.text(&["model_providers", provider, "base_url"]);
    own.or_else(|| {
        file.text(&["openai_base_url"])
            .filter(|_| provider == BUILT_IN_PROVIDER)
    })
}

/// Reads the config in the order of precedence: managed, the user's, the system's. That of a
/// project cannot set the provider.
fn config_files(reader: &mut SettingsReader<'_>) -> Vec<Document> {
    let machine = reader.machine;
    let files = [
        machine.root_file("/etc/codex/managed_config.toml"),
        machine.folder("CODEX_HOME", ".codex").join("config.toml"),
        machine.root_file("/etc/codex/config.toml"),
    ];
    reader.read_files(files, Format::Toml)
}

/// Reads the user's profiles: files like `NAME.config.toml`.
fn profiles(reader: &mut SettingsReader<'_>) -> Vec<Document> {
    let folder = reader.machine.folder("CODEX_HOME", ".codex");
    reader.read_all(&folder, ".config.toml", Format::Toml)
}
