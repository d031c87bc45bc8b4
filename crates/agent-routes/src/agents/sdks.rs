//! SDKs of the model APIs, and what is built on them: variables of the environment.
//!
//! A program may set an address in its code; the network alone holds against that.

use super::{Agent, gemini_cli::vertex_hosts, hosts};
use crate::{
    route::{Destination, Route},
    settings::{Machine, SettingPosition, SettingsReader},
};

pub(super) const GOOGLE: Agent = Agent {
    name: "Google SDKs",
    is_present: |reader| {
        has_any(
            reader.machine,
            &[
                "GOOGLE_GEMINI_BASE_URL",
                "GEMINI_API_KEY",
                "GOOGLE_API_KEY",
                "GOOGLE_VERTEX_BASE_URL",
            ],
        )
    },
    routes: |reader| {
        let mut routes = vec![route(
            reader,
            "Gemini API",
            "GOOGLE_GEMINI_BASE_URL",
            Destination::https(hosts::GEMINI),
            &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
        )];
        if has_any(reader.machine, VERTEX_VARIABLES) {
            let location = reader.machine.variable("GOOGLE_CLOUD_LOCATION");
            routes.push(route(
                reader,
                "Vertex AI",
                "GOOGLE_VERTEX_BASE_URL",
                vertex_hosts(location.as_ref()),
                &["GOOGLE_API_KEY", "GOOGLE_APPLICATION_CREDENTIALS"],
            ));
        }
        routes
    },
};

/// Variables with which Google's SDKs call Vertex AI.
const VERTEX_VARIABLES: &[&str] = &[
    "GOOGLE_VERTEX_BASE_URL",
    "GOOGLE_GENAI_USE_VERTEXAI",
    "GOOGLE_APPLICATION_CREDENTIALS",
];

pub(super) const ANTHROPIC: Agent = Agent {
    name: "Anthropic SDKs",
    is_present: |reader| {
        has_any(
            reader.machine,
            &[
                "ANTHROPIC_BASE_URL",
                "ANTHROPIC_API_KEY",
                "ANTHROPIC_AUTH_TOKEN",
            ],
        )
    },
    routes: |reader| {
        vec![route(
            reader,
            "Anthropic API",
            "ANTHROPIC_BASE_URL",
            Destination::https(hosts::ANTHROPIC),
            &["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"],
        )]
    },
};

pub(super) const OPENAI: Agent = Agent {
    name: "OpenAI SDKs",
    is_present: |reader| has_any(reader.machine, &["OPENAI_BASE_URL", "OPENAI_API_KEY"]),
    routes: |reader| {
        vec![route(
            reader,
            "OpenAI API",
            "OPENAI_BASE_URL",
            Destination::https(hosts::OPENAI),
            &["OPENAI_API_KEY"],
        )]
    },
};

/// Returns whether an SDK is set up here: one of its variables is set.
fn has_any(machine: &Machine, variables: &[&str]) -> bool {
    variables
        .iter()
        .any(|name| machine.variable(name).is_some())
}

fn route(
    reader: &SettingsReader<'_>,
    api: &str,
    base_url: &str,
    default: Destination,
    keys: &[&str],
) -> Route {
    let credentials = keys.iter().filter_map(|name| reader.machine.variable(name));
    let credentials: Vec<SettingPosition> = credentials.map(|setting| setting.place).collect();
    Route {
        settings: reader.machine.variable(base_url).into_iter().collect(),
        credentials,
        ..Route::new(api, default)
    }
}
