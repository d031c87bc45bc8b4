//! The `OpenAPI` document, generated from the code.

#![expect(dead_code, reason = "only descriptions and schemas are used")]
#![expect(
    unused_qualifications,
    reason = "the derived code of utoipa is qualified"
)]

use utoipa::{IntoParams, IntoResponses, OpenApi, ToSchema};

use super::{
    admin, calls, config, events, fleet,
    openapi_errors::{AgentErrors, GoogleError},
    sessions, shadow, trial,
};
use crate::config::to_yaml;

#[derive(Debug, OpenApi)]
#[openapi(
    info(
        title = "hookgate",
        description = "A gateway that runs hooks between AI agents and their model APIs. The document has the operations of hookgate itself, and the model calls of the Gemini API. docs/coverage.md lists the paths of all model APIs, whose requests and responses are as their vendors describe them."
    ),
    paths(
        events::report_event,
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
        admin::hooks,
        admin::coverage,
        admin::unknown_paths,
        config::get_overview,
        config::get_config,
        config::get_config_diff,
        config::get_config_history,
        config::promote,
        config::roll_back,
        fleet::get_fleet,
        sessions::list_sessions,
        sessions::get_session,
        calls::list_calls,
        calls::stream_calls,
        calls::list_in_flight,
        calls::get_call,
        calls::get_content,
        calls::watch_session,
        calls::denials,
        calls::rules,
        admin::reload,
        shadow::get_shadow,
        shadow::start_shadow,
        shadow::end_shadow,
        trial::try_action
    ),
    tags(
        (name = "events", description = "Tool, agent and session events, on the agents' port."),
        (name = "models", description = "Model calls of the Gemini API, on the agents' port. Also under `/v1`, `/v1alpha`, without a version, in the forms of Vertex AI and Code Assist, and under `/s/{session}`; docs/coverage.md lists every path."),
        (name = "admin", description = "Admin API, on the admin port.")
    )
)]
struct ApiDocument;

/// Returns the document as YAML.
///
/// # Errors
///
/// Returns the serializer's message.
pub fn yaml() -> Result<String, String> {
    let document = serde_json::to_value(ApiDocument::openapi());
    let document = document.map_err(|error| error.to_string())?;
    Ok(to_yaml(&document))
}

/// The model in a path.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Path)]
struct ModelParameter {
    /// Name of the model.
    model: String,
}

/// Framing of a stream.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Query)]
struct FramingParameter {
    /// `sse` for server-sent events.
    alt: Option<String>,
}

/// A body of the Gemini API.
#[derive(Debug, ToSchema)]
#[schema(value_type = Object)]
struct GeminiBody(serde_json::Value);

/// The response to a model call that is no stream.
#[derive(Debug, IntoResponses)]
enum ModelResponse {
    /// The response of the model API or of hooks.
    #[response(status = 200)]
    Success(#[to_schema] GeminiBody),
}

/// Errors of a model call beside those of the port.
#[derive(Debug, IntoResponses)]
enum ModelErrors {
    /// An error of the model API, unchanged.
    #[response(status = "default")]
    UpstreamError(#[to_schema] GeminiBody),
    /// The response of the model API is unreadable or a redirect.
    #[response(status = 502)]
    BadGateway(GoogleError),
    /// The model API did not respond in time.
    #[response(status = 504)]
    GatewayTimeout(GoogleError),
}

/// Generates a response to contents.
#[utoipa::path(post, path = "/v1beta/models/{model}:generateContent", tag = "models",
    params(ModelParameter),
    request_body = GeminiBody, responses(ModelResponse, ModelErrors, AgentErrors))]
fn generate_content() {}

/// Generates a response in chunks: server-sent events with `alt=sse`, else a JSON array.
#[utoipa::path(post, path = "/v1beta/models/{model}:streamGenerateContent", tag = "models",
    params(ModelParameter, FramingParameter),
    request_body = GeminiBody,
    responses(
        (status = 200, description = "The chunks of the response of the model API or of hooks.", content(
            (Vec<GeminiBody> = "application/json"),
            (String = "text/event-stream"))),
        ModelErrors, AgentErrors))]
fn stream_generate_content() {}

/// Counts the tokens of a request.
#[utoipa::path(post, path = "/v1beta/models/{model}:countTokens", tag = "models",
    params(ModelParameter),
    request_body = GeminiBody, responses(ModelResponse, ModelErrors, AgentErrors))]
fn count_tokens() {}

/// Computes an embedding of contents.
#[utoipa::path(post, path = "/v1beta/models/{model}:embedContent", tag = "models",
    params(ModelParameter),
    request_body = GeminiBody, responses(ModelResponse, ModelErrors, AgentErrors))]
fn embed_content() {}

/// Computes embeddings of several contents.
#[utoipa::path(post, path = "/v1beta/models/{model}:batchEmbedContents", tag = "models",
    params(ModelParameter),
    request_body = GeminiBody, responses(ModelResponse, ModelErrors, AgentErrors))]
fn batch_embed_contents() {}

/// Lists the models of the upstream.
#[utoipa::path(
    get,
    path = "/v1beta/models",
    tag = "models",
    responses(ModelResponse, ModelErrors, AgentErrors)
)]
fn list_models() {}

/// Describes one model by name.
#[utoipa::path(
    get,
    path = "/v1beta/models/{model}",
    tag = "models",
    params(ModelParameter),
    responses(ModelResponse, ModelErrors, AgentErrors)
)]
fn get_model() {}
