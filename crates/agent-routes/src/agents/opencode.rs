//! opencode: the providers of its config, and whether others are allowed.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use super::{Agent, hosts};
use crate::{
    route::{Destination, Route},
    settings::{Document, Format, Machine, Setting, SettingsReader},
};

pub(super) const AGENT: Agent = Agent {
    name: "opencode",
    is_present: |reader| reader.machine.has_agent("opencode", ".config/opencode"),
    routes,
};

/// Providers with hosts of their own that need no base URL.
const PROVIDERS: [(&str, &str, &str); 3] = [
    ("anthropic", hosts::ANTHROPIC, "ANTHROPIC_API_KEY"),
    ("openai", hosts::OPENAI, "OPENAI_API_KEY"),
    ("google", hosts::GEMINI, "GOOGLE_GENERATIVE_AI_API_KEY"),
];

fn routes(reader: &mut SettingsReader<'_>) -> Vec<Route> {
    let files = config_files(reader);
    let machine = reader.machine;
    let logins = machine.home.join(".local/share/opencode/auth.json");
    let logins = reader.read(&logins, Format::Json);
    let only = files.iter().find_map(|file| {
        let names = file.list(&["enabled_providers"])?;
        Some((names, file.place(&["enabled_providers"])))
    });
    let built_in = PROVIDERS.iter().map(|(name, ..)| (*name).to_owned());
    let named = files.iter().flat_map(|file| file.entries(&["provider"]));
    let logged_in = logins.iter().flat_map(|file| file.entries(&[]));
    let named = named.chain(logged_in).map(|(name, _)| name.clone());
    let enabled = only.iter().flat_map(|(names, _)| names);
    let enabled = enabled.map(|name| (*name).to_owned());
    let providers = built_in.chain(named).chain(enabled);
    let providers: BTreeSet<String> = providers.collect();
    let mut routes: Vec<Route> = Vec::new();
    for provider in &providers {
        let known = PROVIDERS.iter().find(|(name, ..)| name == provider);
        let disabled_by = only
            .as_ref()
            .filter(|(names, _)| !names.contains(&provider.as_str()));
        let login = logins
            .as_ref()
            .filter(|file| file.entries(&[]).any(|(name, _)| name == provider));
        let variable = known.and_then(|(.., variable)| machine.variable(variable));
        let default = match known {
            Some((_, host, _)) => Destination::https(host),
            None => Destination::Unknown(format!("provider `{provider}` has no baseURL")),
        };
        routes.push(Route {
            settings: base_urls(&files, provider, machine),
            disabled_by: disabled_by.map(|(_, place)| place.clone()),
            credentials: variable
                .map(|setting| setting.place)
                .into_iter()
                .chain(login.map(|file| file.place(&[provider])))
                .collect(),
            ..Route::new(format!("provider {provider}"), default)
        });
    }
    if only.is_none() {
        let default = Destination::Unknown("enabled_providers is not set".to_owned());
        routes.push(Route::new("any other provider", default));
    }
    routes
}

/// Returns the base URLs of a provider, in which `{env:NAME}` is a variable.
fn base_urls(files: &[Document], provider: &str, machine: &Machine) -> Vec<Setting> {
    let path = ["provider", provider, "options", "baseURL"];
    let settings = files.iter().filter_map(|file| file.text(&path));
    let expanded = settings.map(|mut setting| {
        let name = setting
            .value
            .strip_prefix("{env:")
            .and_then(|rest| rest.strip_suffix('}'));
        if let Some(variable) = name.and_then(|name| machine.variable(name)) {
            setting.value = variable.value;
        }
        setting
    });
    expanded.collect()
}

/// Reads the config in the order of precedence: managed, a variable's, that of the folders
/// `.opencode`, the project's, a named one, the user's.
fn config_files(reader: &mut SettingsReader<'_>) -> Vec<Document> {
    let machine = reader.machine;
    let in_folder = |folder: PathBuf| [folder.join("opencode.jsonc"), folder.join("opencode.json")];
    let managed = ["/etc/opencode", "/Library/Application Support/opencode"];
    let managed = managed.map(|folder| machine.root_file(folder));
    let mut files = reader.read_files(managed.into_iter().flat_map(in_folder), Format::Jsonc);
    files.extend(reader.read_variable("OPENCODE_CONFIG_CONTENT", Format::Jsonc));

    let named = |variable| {
        let setting = machine.variable(variable);
        setting.map(|setting| machine.root_file(&setting.value))
    };
    // Without a repository, opencode searches all folders above.
    let root = machine.repository().unwrap_or(Path::new("/"));
    let folders = machine.project.ancestors();
    let folders: Vec<&Path> = folders.take_while(|path| path.starts_with(root)).collect();
    let outermost_first = folders.iter().rev();
    let own = [machine.home.join(".opencode")].into_iter();
    let own = own.chain(outermost_first.map(|folder| folder.join(".opencode")));
    let own = named("OPENCODE_CONFIG_DIR").into_iter().chain(own);
    let project = folders.iter().map(|folder| folder.to_path_buf());
    let user = machine.folder("XDG_CONFIG_HOME", ".config");
    let others = own.chain(project).flat_map(in_folder);
    let others = others.chain(named("OPENCODE_CONFIG"));
    let others = others.chain(in_folder(user.join("opencode")));
    files.extend(reader.read_files(others, Format::Jsonc));
    files
}
