//! The method table: each row matches its own paths only, and the documentation lists all.

use std::{collections::BTreeSet, fmt::Write as _, fs};

use http::Method;

use super::*;
use crate::dialect::{Access, Api, FIELDS, methods, of, recognize_call};

/// A path of this row.
fn example(row: &MethodSpec) -> String {
    let version = of(row.api).versions().first().unwrap();
    let mut path = row.path.replace("{version}", version);
    while let Some((head, rest)) = path.split_once('{') {
        let (_, tail) = rest.split_once('}').unwrap();
        path = format!("{head}x1{tail}");
    }
    path
}

fn recognize(
    method: &str,
    path: &str,
    query: &str,
) -> Option<Result<RecognizedCall, RequestLineError>> {
    recognize_for(None, method, path, query)
}

fn recognize_for(
    api: Option<Api>,
    method: &str,
    path: &str,
    query: &str,
) -> Option<Result<RecognizedCall, RequestLineError>> {
    recognize_call(RequestLine {
        method: &method.parse::<Method>().unwrap(),
        path,
        query,
        api,
    })
}

fn call(path: &str, query: &str) -> Call {
    let known = recognize("POST", path, query).unwrap().unwrap();
    known.call.unwrap()
}

#[test]
fn every_row_matches_its_own_path_only() {
    for row in methods() {
        let path = example(row);
        let known = recognize_for(Some(row.api), row.method, &path, "");
        let known = known.unwrap().unwrap();
        assert_eq!(known.method, row, "{path}");
        assert_eq!(known.call.unwrap().target(), path);

        let (head, last) = path.rsplit_once('/').unwrap();
        for other in [
            format!("/{path}"),
            format!("{path}/"),
            format!("{path}%20"),
            format!("{path};x=1"),
            format!("{head}//{last}"),
            format!("{head}/./{last}"),
            format!("{head}/x/../{last}"),
            format!("{head}%2F{last}"),
            path.to_uppercase(),
            format!("/x{path}"),
        ] {
            let known = recognize_for(Some(row.api), row.method, &other, "");
            assert!(known.is_none(), "{other}");
        }
    }
}

#[test]
fn a_family_matches_all_methods_and_deeper_paths_but_no_path_of_another_row() {
    for (method, path, name) in [
        ("PUT", "/v1/organization/x", "organization.others"),
        ("GET", "/v1/organization/a/b/c", "organization.others"),
        ("GET", "/organization/a-b/c_d", "organization.others"),
        (
            "GET",
            "/v1/projects/proj_A/users/u/roles",
            "projects.others",
        ),
        ("POST", "/v1/projects/proj_A/roles", "projects.others"),
        ("GET", "/v1/threads/t1", "threads.retrieve"),
        ("GET", "/v1/threads/t1/runs/r1/steps", "threads.others"),
        (
            "POST",
            "/v1/realtime/client_secrets",
            "realtime.client_secrets.create",
        ),
    ] {
        let known = recognize_for(Some(Api::OpenAiResponses), method, path, "");
        assert_eq!(known.unwrap().unwrap().method.name, name, "{path}");
    }
    for path in [
        "/v1/organization/",
        "/v1/organization/a//b",
        "/v1/organization/a/../b",
    ] {
        assert!(recognize("GET", path, "").is_none(), "{path}");
    }
}

#[test]
fn no_two_rows_of_an_api_share_a_path_and_a_method() {
    let lines: BTreeSet<_> = methods()
        .map(|row| (row.api, row.method, row.path))
        .collect();
    assert_eq!(lines.len(), methods().count());
}

#[test]
fn path_parameters_are_checked() {
    for path in [
        "/v1beta/models/..:generateContent",
        "/v1beta/models/a%2Fb:generateContent",
        "/v1beta/models/m:fly",
        "/v2/models/m:generateContent",
        "/v1/projects/../locations/l/publishers/google/models/m:generateContent",
        "/v1/projects/P/locations/l/publishers/google/models/m:generateContent",
        "/v1/projects/p/locations/l.m/publishers/google/models/m:generateContent",
        "/v1/projects/p/locations/l/publishers/other/models/m:generateContent",
        "/v1alpha/publishers/google/models/m:generateContent",
        "/v1internal:fly",
        "/v1internal:GenerateContent",
        "/v1internal/generateContent",
    ] {
        assert!(recognize("POST", path, "").is_none(), "{path}");
    }
    let scoped =
        "/v1/projects/example.com:p-1/locations/us-central1/publishers/google/models/m:countTokens";
    assert_eq!(call(scoped, "").target(), scoped);
}

#[test]
fn a_path_without_a_version_belongs_to_the_gemini_api() {
    let call = call("/models/m:countTokens", "");
    assert_eq!(call.target(), "/v1beta/models/m:countTokens");
    assert!(recognize("POST", "/publishers/google/models/m:countTokens", "").is_none());
}

#[test]
fn unknown_query_parameters_are_refused() {
    let stream = "/v1beta/models/m:streamGenerateContent";
    let target = |query: &str| call(stream, query).target();
    assert_eq!(target("key=SECRET&alt=sse"), format!("{stream}?alt=sse"));
    assert_eq!(
        target("alt=json&quotaUser=u"),
        format!("{stream}?quotaUser=u")
    );
    for query in [
        "$httpMethod=GET",
        "alt=proto",
        "uploadType=media",
        "%6bey=K",
    ] {
        let known = recognize("POST", stream, query).unwrap().unwrap();
        assert!(
            matches!(known.call, Err(RequestLineError::Query(_))),
            "{query}"
        );
    }
}

#[test]
fn an_error_lists_the_allowed_methods() {
    let error = recognize("POST", "/v1beta/cachedContents/c", "").unwrap();
    let error = error.unwrap_err().to_string();
    assert_eq!(error, "method not allowed; allowed: GET, PATCH, DELETE");
    // Several APIs have this path.
    let error = recognize("POST", "/v1/models", "").unwrap();
    let error = error.unwrap_err().to_string();
    assert_eq!(error, "method not allowed; allowed: GET");
}

#[test]
fn a_model_in_a_body_must_belong_to_the_project_in_the_path() {
    let project = call(
        "/v1/projects/p/locations/l/publishers/google/models/m:countTokens",
        "",
    );
    let express = call("/v1/publishers/google/models/m:countTokens", "");
    let gemini = call("/v1/models/m:countTokens", "");
    let full = "projects/p/locations/l/publishers/google/models/m";
    for (call, good, bad) in [
        (
            &project,
            full,
            "projects/q/locations/l/publishers/google/models/m",
        ),
        (
            &project,
            "publishers/google/models/m",
            "publishers/other/models/m",
        ),
        (&express, "publishers/google/models/m", full),
        (&gemini, "models/m", "publishers/google/models/m"),
        (&gemini, "m", "models/models/m"),
    ] {
        assert_eq!(call.resolve_model(good), call.model, "{good}");
        assert_eq!(call.resolve_model(bad), None, "{bad}");
    }
}

/// Writes the fields of an API's requests that have a name in the config.
fn write_fields(page: &mut String, api: Api) {
    let mut fields = FIELDS.iter().filter(|field| field.api == api).peekable();
    if fields.peek().is_none() {
        return;
    }
    page.push_str("\n| field | in requests | what it refers to | if allowed | reason |\n");
    page.push_str("|---|---|---|---|---|\n");
    for row in fields {
        let (runs, allowed) = (row.coverage(false).as_str(), row.coverage(true).as_str());
        let allowed = match row.access {
            Access::Open => "",
            Access::ByName => allowed,
            Access::Never(_) | Access::Socket => "never",
        };
        let (name, field) = (row.name, row.field);
        let why = row.why();
        writeln!(
            page,
            "| `{name}` | `{field}` | {runs} | {allowed} | {why} |"
        )
        .unwrap();
    }
}

#[test]
fn the_documentation_lists_the_table() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/coverage.md");
    let page = fs::read_to_string(file).unwrap();
    let (head, _) = page.split_once("\n## The table\n").unwrap();
    let mut made = format!("{head}\n## The table\n");
    for api in Api::ALL {
        let title = match api {
            Api::Gemini => "Gemini API",
            Api::Vertex => "Vertex AI",
            Api::CodeAssist => "Code Assist",
            Api::Anthropic => "Anthropic Messages",
            Api::OpenAiResponses => "OpenAI Responses",
            Api::OpenAiChat => "OpenAI Chat Completions",
        };
        if !methods().any(|row| row.api == api) {
            continue;
        }
        write!(made, "\n### {title} (`upstreams.{}`)\n\n", api.upstream()).unwrap();
        made.push_str("| name | path | what runs | if allowed |\n|---|---|---|---|\n");
        for row in methods().filter(|row| row.api == api) {
            let (runs, allowed) = (row.coverage(false), row.coverage(true));
            let allowed = match row.access {
                Access::Open => "",
                Access::ByName => allowed.as_str(),
                Access::Never(_) | Access::Socket => "never",
            };
            let (name, runs) = (row.name, runs.as_str());
            let (method, path) = (row.method, row.path);
            writeln!(
                made,
                "| `{name}` | `{method} {path}` | {runs} | {allowed} |"
            )
            .unwrap();
        }
        write_fields(&mut made, api);
    }
    if std::env::var_os("UPDATE").is_some() {
        fs::write(file, &made).unwrap();
    }
    assert!(
        page == made || std::env::var_os("UPDATE").is_some(),
        "run with UPDATE=1"
    );
}
