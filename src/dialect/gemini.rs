//! `gemini`: the API under `/{version}/models/{model}:{method}`.

use http::Method;

use super::{Api, Call, Dialect, DialectError, Framing, Operation, RequestLine};
use crate::model::ModelName;

/// The versions that agents use.
const VERSIONS: [&str; 3] = ["v1beta", "v1", "v1alpha"];

/// What a path without a version means (litellm sends such).
const DEFAULT_VERSION: &str = "v1beta";

/// Query parameters that upstream understands and that change no meaning.
const PASSED: [&str; 4] = ["pageSize", "pageToken", "prettyPrint", "quotaUser"];

#[derive(Debug)]
pub(super) struct Gemini;

impl Dialect for Gemini {
    fn api(&self) -> Api {
        Api::Gemini
    }

    fn recognise(&self, line: RequestLine<'_>) -> Option<Result<Call, DialectError>> {
        let path = line.path.strip_prefix('/')?;
        let (first, rest) = path.split_once('/').unwrap_or((path, ""));
        let (version, path) = match VERSIONS.iter().find(|it| **it == first) {
            Some(version) => (*version, rest),
            None => (DEFAULT_VERSION, path),
        };
        let (model, operation) = operation(path)?;
        Some(call(line, version, model, operation))
    }

    fn target(&self, call: &Call) -> String {
        let model = call.model_name();
        let version = &call.version;
        let path = match call.operation {
            Operation::ListModels => format!("/{version}/models"),
            Operation::GetModel => format!("/{version}/models/{model}"),
            operation => format!("/{version}/models/{model}:{}", operation.as_str()),
        };
        let framing = match call.operation {
            Operation::Stream(Framing::Sse) => Some("alt=sse".to_owned()),
            _ => None,
        };
        let query: Vec<String> = framing.into_iter().chain(call.query.clone()).collect();
        if query.is_empty() {
            return path;
        }
        format!("{path}?{}", query.join("&"))
    }
}

/// Model and operation of a path behind the version.
fn operation(path: &str) -> Option<(Option<ModelName>, Operation)> {
    if path == "models" {
        return Some((None, Operation::ListModels));
    }
    let rest = path.strip_prefix("models/")?;
    let Some((model, method)) = rest.split_once(':') else {
        return Some((Some(ModelName::parse(rest)?), Operation::GetModel));
    };
    let operation = match method {
        "generateContent" => Operation::Generate,
        "streamGenerateContent" => Operation::Stream(Framing::Array),
        "countTokens" => Operation::CountTokens,
        "embedContent" => Operation::Embed,
        "batchEmbedContents" => Operation::BatchEmbed,
        _ => return None,
    };
    Some((Some(ModelName::parse(model)?), operation))
}

fn call(
    line: RequestLine<'_>,
    version: &str,
    model: Option<ModelName>,
    operation: Operation,
) -> Result<Call, DialectError> {
    let allowed = if operation.sends_content() {
        Method::POST
    } else {
        Method::GET
    };
    if line.method != allowed {
        let allowed = if operation.sends_content() {
            "POST"
        } else {
            "GET"
        };
        return Err(DialectError::Method { allowed });
    }
    let mut framing = Framing::Array;
    let mut query = Vec::new();
    for pair in line.query.split('&').filter(|it| !it.is_empty()) {
        match pair.split_once('=').unwrap_or((pair, "")) {
            ("alt", "sse") => framing = Framing::Sse,
            // A credential; it travels in a header.
            ("alt", "json" | "") | ("key", _) => (),
            (name, _) if PASSED.contains(&name) => query.push(pair.to_owned()),
            (name, _) => return Err(DialectError::Query(name.to_owned())),
        }
    }
    let operation = match operation {
        Operation::Stream(_) => Operation::Stream(framing),
        other => other,
    };
    Ok(Call {
        version: version.to_owned(),
        model,
        operation,
        query,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recognise(path: &str, query: &str) -> Option<Result<Call, DialectError>> {
        let method = &Method::POST;
        Gemini.recognise(RequestLine {
            method,
            path,
            query,
        })
    }

    #[track_caller]
    fn check(path: &str, query: &str, target: &str) {
        let call = recognise(path, query).unwrap().unwrap();
        assert_eq!(Gemini.target(&call), target);
    }

    #[test]
    fn every_prefix_leads_to_a_versioned_target() {
        check(
            "/v1beta/models/m:generateContent",
            "",
            "/v1beta/models/m:generateContent",
        );
        check("/v1/models/m:countTokens", "", "/v1/models/m:countTokens");
        check(
            "/v1alpha/models/m:embedContent",
            "",
            "/v1alpha/models/m:embedContent",
        );
        check(
            "/models/m:batchEmbedContents",
            "",
            "/v1beta/models/m:batchEmbedContents",
        );
    }

    #[test]
    fn alt_stays_and_the_key_goes() {
        let path = "/v1beta/models/m:streamGenerateContent";
        check(
            path,
            "key=SECRET&alt=sse",
            "/v1beta/models/m:streamGenerateContent?alt=sse",
        );
        check(path, "", "/v1beta/models/m:streamGenerateContent");
    }

    #[test]
    fn other_paths_are_nobodys() {
        for path in [
            "/",
            "/v1beta/files",
            "/v2/models/m:generateContent",
            "/v1beta/models/m:fly",
            "/v1beta/models/a/b:generateContent",
            "/v1beta/models/..:generateContent",
            "/v1beta//models/m:generateContent",
            "/v1beta/models/a%2Fb:generateContent",
        ] {
            assert!(recognise(path, "").is_none(), "{path}");
        }
    }

    #[test]
    fn what_cannot_be_passed_on_is_named() {
        let query = recognise("/v1/models/m:generateContent", "$httpMethod=GET").unwrap();
        assert!(matches!(query, Err(DialectError::Query(name)) if name == "$httpMethod"));
        let listed = recognise("/v1/models", "").unwrap();
        assert!(matches!(
            listed,
            Err(DialectError::Method { allowed: "GET" })
        ));
    }
}
