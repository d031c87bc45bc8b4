//! gemini-cli: variables, `.env` files, and the login that its settings allow.
//!
//! A variable of the environment precedes `.env` files, of which gemini-cli reads the first:
//! from the project's folder upwards, then those of the home directory.

use std::path::PathBuf;

use super::{Agent, hosts};
use crate::{
    address::Address,
    route::{Destination, Route},
    settings::{Document, Format, Setting, SettingPosition, SettingsReader},
};

pub(super) const AGENT: Agent = Agent {
    name: "gemini-cli",
    is_present: |reader| reader.machine.has_agent("gemini", ".gemini"),
    routes,
};

/// Name, types in the settings, and variable of the base URL of a login.
type Login = (&'static str, &'static [&'static str], &'static str);

const LOGINS: [Login; 3] = [
    (
        "API key",
        &["gemini-api-key", "gateway"],
        "GOOGLE_GEMINI_BASE_URL",
    ),
    ("Vertex AI", &["vertex-ai"], "GOOGLE_VERTEX_BASE_URL"),
    (
        "Google login",
        &[
            "oauth-personal",
            "compute-default-credentials",
            "cloud-shell",
        ],
        "CODE_ASSIST_ENDPOINT",
    ),
];

fn routes(reader: &mut SettingsReader<'_>) -> Vec<Route> {
    let files = variable_files(reader);
    // gemini-cli reads the first one only.
    let (first, others) = files.split_at(files.len().min(1));
    let enforced = enforced_type(reader);
    let find = |name: &str| {
        let environment = reader.machine.assignment(name).into_iter();
        let files = first.iter().filter_map(|file| file.text(&[name]));
        Setting::until_empty(environment.chain(files)).collect::<Vec<_>>()
    };
    let places = |name: &str| find(name).into_iter().map(|setting| setting.place);
    let home = |path: &str| SettingPosition::of_file(reader.machine.home.join(path));
    let application_default = || {
        let file = home(".config/gcloud/application_default_credentials.json");
        places("GOOGLE_APPLICATION_CREDENTIALS").chain(file)
    };
    let route = |(login, types, variable): Login, default, credentials| Route {
        settings: find(variable),
        alternatives: others
            .iter()
            .filter_map(|file| file.text(&[variable]))
            .collect(),
        disabled_by: enforced
            .as_ref()
            .filter(|enforced| !types.contains(&enforced.value.as_str()))
            .map(|enforced| enforced.place.clone()),
        credentials,
        ..Route::new(login, default)
    };
    let [api_key, vertex, google] = LOGINS;
    let location = find("GOOGLE_CLOUD_LOCATION").into_iter().next();
    let gemini_keys = places("GEMINI_API_KEY").collect();
    let google_keys = places("GOOGLE_API_KEY").chain(application_default());
    let logins = places("GOOGLE_CLOUD_ACCESS_TOKEN").chain(home(".gemini/oauth_creds.json"));
    let logins = logins.chain(application_default()).collect();
    let vertex_default = vertex_hosts(location.as_ref());
    let mut routes = vec![
        route(api_key, Destination::https(hosts::GEMINI), gemini_keys),
        route(vertex, vertex_default, google_keys.collect()),
        route(google, Destination::https(hosts::CODE_ASSIST), logins),
    ];
    routes.extend(enforced.as_ref().and_then(other_login));
    routes
}

/// Returns the route of an enforced type of login that is none of the known ones.
fn other_login(enforced: &Setting) -> Option<Route> {
    let Setting { value, place } = enforced;
    let mut known = LOGINS.iter().flat_map(|(_, types, _)| *types);
    if known.any(|name| name == value) {
        return None;
    }
    let default = Destination::Unknown(format!("the type `{value}` of {place} is not known"));
    Some(Route::new("another login", default))
}

/// Returns the hosts of Vertex AI at a location.
pub(super) fn vertex_hosts(location: Option<&Setting>) -> Destination {
    let regional = location.map(|location| location.value.as_str());
    let regional = regional.filter(|location| *location != "global");
    let regional =
        regional.map(|location| Address::https(&format!("{location}-{}", hosts::VERTEX)));
    let global = Address::https(hosts::VERTEX);
    Destination::Hosts(regional.into_iter().chain([global]).collect())
}

/// Reads the `.env` files in the order in which gemini-cli looks for them.
fn variable_files(reader: &mut SettingsReader<'_>) -> Vec<Document> {
    let machine = reader.machine;
    let folders = machine.project.ancestors().chain([machine.home.as_path()]);
    let files = folders.flat_map(|folder| [folder.join(".gemini/.env"), folder.join(".env")]);
    reader.read_files(files, Format::Variables)
}

/// Returns the only type of login that the settings allow, if they do.
fn enforced_type(reader: &mut SettingsReader<'_>) -> Option<Setting> {
    let system = reader.machine.variable("GEMINI_CLI_SYSTEM_SETTINGS_PATH");
    let system = match system {
        Some(setting) => vec![reader.machine.root_file(&setting.value)],
        None => [
            "/etc/gemini-cli/settings.json",
            "/Library/Application Support/GeminiCli/settings.json",
        ]
        .map(|file| reader.machine.root_file(file))
        .to_vec(),
    };
    let users = [&reader.machine.project, &reader.machine.home];
    let users = users.map(|folder| folder.join(".gemini/settings.json"));
    let files: Vec<PathBuf> = system.into_iter().chain(users).collect();
    files.iter().find_map(|file| {
        let settings = reader.read(file, Format::CommentedJson)?;
        settings.text(&["security", "auth", "enforcedType"])
    })
}
