//! Claude Code: variables of its settings, which precede those of the environment.

use super::{Agent, gemini_cli::vertex_hosts, hosts};
use crate::{
    route::{Destination, Route},
    settings::{Document, Format, Setting, SettingPosition, SettingsReader},
};

pub(super) const AGENT: Agent = Agent {
    name: "Claude Code",
    is_present: |reader| reader.machine.has_agent("claude", ".claude"),
    routes,
};

fn routes(reader: &mut SettingsReader<'_>) -> Vec<Route> {
    let files = settings_files(reader);
    let find = |name: &str| -> Vec<Setting> {
        let files = files.iter().filter_map(|file| file.variable(name));
        Setting::until_empty(files.chain(reader.machine.assignment(name))).collect()
    };
    let first = |name: &str| find(name).into_iter().next();
    let keys = [
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "CLAUDE_CODE_OAUTH_TOKEN",
    ];
    let helpers = files.iter();
    let helpers = helpers.filter_map(|file| file.text(&["apiKeyHelper"]));
    let credentials = keys.into_iter().flat_map(find).chain(helpers);
    let credentials = credentials.map(|setting| setting.place);
    let mut credentials: Vec<SettingPosition> = credentials.collect();
    let folder = reader.machine.folder("CLAUDE_CONFIG_DIR", ".claude");
    credentials.extend(SettingPosition::of_file(folder.join(".credentials.json")));

    let mut routes = vec![Route {
        settings: find("ANTHROPIC_BASE_URL"),
        credentials,
        ..Route::new("Anthropic API", Destination::https(hosts::ANTHROPIC))
    }];
    let clouds = clouds(first);
    let is_chosen = |switch| {
        first(switch).is_some_and(|setting| setting.value != "0" && setting.value != "false")
    };
    let chosen = clouds.into_iter().filter(|cloud| is_chosen(cloud.switch));
    routes.extend(chosen.map(|cloud| Route {
        settings: find(cloud.base_url),
        ..Route::new(cloud.name, cloud.default)
    }));
    routes
}

/// A cloud that replaces the API if a variable is set. Credentials are those of the cloud.
struct Cloud {
    name: &'static str,
    /// The variable that chooses it.
    switch: &'static str,
    /// The variable of its base URL.
    base_url: &'static str,
    default: Destination,
}

fn clouds(first: impl Fn(&str) -> Option<Setting>) -> [Cloud; 3] {
    let region =
        first("AWS_REGION").map_or_else(|| "us-east-1".to_owned(), |setting| setting.value);
    [
        Cloud {
            name: "Amazon Bedrock",
            switch: "CLAUDE_CODE_USE_BEDROCK",
            base_url: "ANTHROPIC_BEDROCK_BASE_URL",
            default: Destination::https(&format!("bedrock-runtime.{region}.amazonaws.com")),
        },
        Cloud {
            name: "Vertex AI",
            switch: "CLAUDE_CODE_USE_VERTEX",
            base_url: "ANTHROPIC_VERTEX_BASE_URL",
            default: vertex_hosts(first("CLOUD_ML_REGION").as_ref()),
        },
        Cloud {
            name: "Microsoft Foundry",
            switch: "CLAUDE_CODE_USE_FOUNDRY",
            base_url: "ANTHROPIC_FOUNDRY_BASE_URL",
            default: match first("ANTHROPIC_FOUNDRY_RESOURCE") {
                Some(name) => Destination::https(&format!("{}.services.ai.azure.com", name.value)),
                None => Destination::Unknown("no resource of Foundry is named".to_owned()),
            },
        },
    ]
}

/// Reads the settings in the order of their precedence: managed, the project's, the user's.
fn settings_files(reader: &mut SettingsReader<'_>) -> Vec<Document> {
    let machine = reader.machine;
    let files = [
        machine.root_file("/etc/claude-code/managed-settings.json"),
        machine.root_file("/Library/Application Support/ClaudeCode/managed-settings.json"),
        machine.project.join(".claude/settings.local.json"),
        machine.project.join(".claude/settings.json"),
        machine
            .folder("CLAUDE_CONFIG_DIR", ".claude")
            .join("settings.json"),
    ];
    reader.read_files(files, Format::Json)
}
