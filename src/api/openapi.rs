//! The `OpenAPI` document, made from the code.

use serde_json::{Map, Value};
use utoipa::{OpenApi, ToSchema};

use super::report;
use crate::{admin, event::EventName};

/// Everything that agents and operators may call.
#[derive(Debug, OpenApi)]
#[openapi(
    info(
        title = "hookgate",
        description = "A gateway that runs hooks between AI agents and a Gemini-style model API."
    ),
    paths(
        report::report_event,
        generate_content,
        stream_generate_content,
        count_tokens,
        embed_content,
        batch_embed_contents,
        list_models,
        get_model,
        admin::healthz,
        admin::readyz,
        admin::metrics,
        admin::hooks
    ),
    tags(
        (name = "events", description = "Tool, agent and session events, on the agents' port."),
        (name = "models", description = "Model calls as the Gemini API has them, on the agents' port. Also under `/v1`, `/v1alpha`, without a version, and under `/s/{session}`."),
        (name = "admin", description = "For operators, on the admin port.")
    ),
    components(schemas(report::Explanation))
)]
struct Document;

/// The document as YAML.
pub fn to_yaml() -> Result<String, String> {
    Document::openapi()
        .to_yaml()
        .map_err(|error| error.to_string())
}

/// The hook input of an event.
#[derive(Debug, ToSchema)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct EventInput {
    /// Which event it is.
    #[schema(value_type = String, example = "BeforeTool")]
    hook_event_name: EventName,
    /// The agent's session; made up if it is left out.
    session_id: Option<String>,
    /// The conversation so far as a file.
    transcript_path: Option<String>,
    /// The agent's working directory.
    cwd: Option<String>,
    /// RFC 3339 in UTC.
    timestamp: Option<String>,
    /// The fields of the event itself; `docs/hooks.md` lists them.
    #[schema(additional_properties, value_type = Object)]
    event: Map<String, Value>,
}

/// An error as Google's APIs write it.
#[derive(Debug, ToSchema)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct GoogleError {
    error: GoogleErrorBody,
}

#[derive(Debug, ToSchema)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct GoogleErrorBody {
    /// The HTTP status.
    code: u16,
    /// For people.
    message: String,
    /// The canonical code, such as `INVALID_ARGUMENT`.
    status: String,
    /// One `ErrorInfo` with `reason`, `domain` and `metadata.request_id`.
    #[schema(value_type = Vec<Object>)]
    details: Vec<Value>,
}

/// One answer.
#[utoipa::path(post, path = "/v1beta/models/{model}:generateContent", tag = "models",
    params(("model" = String, Path, description = "The model's name.")),
    request_body(content = Object, description = "As the Gemini API takes it."),
    responses(
        (status = 200, description = "As the Gemini API answers, or as hooks do.", body = Object),
        (status = "4XX", description = "Refused by hooks, by upstream, or not understood.", body = GoogleError),
        (status = "5XX", description = "Upstream failed.", body = GoogleError)))]
#[expect(dead_code, reason = "only its description is used")]
fn generate_content() {}

/// An answer in chunks: server-sent events with `alt=sse`, a JSON array without.
#[utoipa::path(post, path = "/v1beta/models/{model}:streamGenerateContent", tag = "models",
    params(("model" = String, Path, description = "The model's name."), ("alt" = Option<String>, Query, description = "`sse` for server-sent events.")),
    request_body(content = Object, description = "As the Gemini API takes it."),
    responses(
        (status = 200, description = "As the Gemini API answers, or as hooks do.", body = Object),
        (status = "4XX", description = "Refused by hooks, by upstream, or not understood.", body = GoogleError),
        (status = "5XX", description = "Upstream failed.", body = GoogleError)))]
#[expect(dead_code, reason = "only its description is used")]
fn stream_generate_content() {}

/// How many tokens a request has.
#[utoipa::path(post, path = "/v1beta/models/{model}:countTokens", tag = "models",
    params(("model" = String, Path, description = "The model's name.")),
    request_body(content = Object, description = "As the Gemini API takes it."),
    responses(
        (status = 200, description = "As the Gemini API answers, or as hooks do.", body = Object),
        (status = "4XX", description = "Refused by hooks, by upstream, or not understood.", body = GoogleError),
        (status = "5XX", description = "Upstream failed.", body = GoogleError)))]
#[expect(dead_code, reason = "only its description is used")]
fn count_tokens() {}

/// One embedding.
#[utoipa::path(post, path = "/v1beta/models/{model}:embedContent", tag = "models",
    params(("model" = String, Path, description = "The model's name.")),
    request_body(content = Object, description = "As the Gemini API takes it."),
    responses(
        (status = 200, description = "As the Gemini API answers, or as hooks do.", body = Object),
        (status = "4XX", description = "Refused by hooks, by upstream, or not understood.", body = GoogleError),
        (status = "5XX", description = "Upstream failed.", body = GoogleError)))]
#[expect(dead_code, reason = "only its description is used")]
fn embed_content() {}

/// Several embeddings.
#[utoipa::path(post, path = "/v1beta/models/{model}:batchEmbedContents", tag = "models",
    params(("model" = String, Path, description = "The model's name.")),
    request_body(content = Object, description = "As the Gemini API takes it."),
    responses(
        (status = 200, description = "As the Gemini API answers, or as hooks do.", body = Object),
        (status = "4XX", description = "Refused by hooks, by upstream, or not understood.", body = GoogleError),
        (status = "5XX", description = "Upstream failed.", body = GoogleError)))]
#[expect(dead_code, reason = "only its description is used")]
fn batch_embed_contents() {}

/// The models that upstream offers.
#[utoipa::path(get, path = "/v1beta/models", tag = "models",
    responses(
        (status = 200, description = "As the Gemini API answers.", body = Object),
        (status = "4XX", description = "Refused by upstream, or not understood.", body = GoogleError)))]
#[expect(dead_code, reason = "only its description is used")]
fn list_models() {}

/// What upstream knows of one model.
#[utoipa::path(get, path = "/v1beta/models/{model}", tag = "models",
    params(("model" = String, Path, description = "The model's name.")),
    responses(
        (status = 200, description = "As the Gemini API answers.", body = Object),
        (status = "4XX", description = "Refused by upstream, or not understood.", body = GoogleError)))]
#[expect(dead_code, reason = "only its description is used")]
fn get_model() {}
