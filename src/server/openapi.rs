//! The `OpenAPI` document, made from the code.

#![expect(
    unused_qualifications,
    reason = "the derived code of utoipa is qualified"
)]

use utoipa::{IntoParams, IntoResponses, OpenApi, ToSchema};

use crate::{
    admin,
    api::{self, Explanation},
    state::{GoogleError, Refusals},
};

/// Everything that agents and operators may call.
#[derive(Debug, OpenApi)]
#[openapi(
    info(
        title = "hookgate",
        description = "A gateway that runs hooks between AI agents and a Gemini-style model API."
    ),
    paths(
        api::events::report_event,
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
        admin::sessions::sessions,
        admin::sessions::session,
        admin::reload
    ),
    tags(
        (name = "events", description = "Tool, agent and session events, on the agents' port."),
        (name = "models", description = "Model calls as the Gemini API has them, on the agents' port. Also under `/v1`, `/v1alpha`, without a version, as Vertex AI and Code Assist have them, and under `/s/{session}`; docs/coverage.md lists every path."),
        (name = "admin", description = "For operators, on the admin port.")
    ),
    components(schemas(Explanation))
)]
struct Document;

/// The document as YAML.
pub fn to_yaml() -> Result<String, String> {
    Document::openapi()
        .to_yaml()
        .map_err(|error| error.to_string())
}

/// The model that a path names.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "only its description is used")]
struct Model {
    /// The model's name.
    model: String,
}

/// How a stream is framed.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "only its description is used")]
struct Framing {
    /// `sse` for server-sent events.
    alt: Option<String>,
}

/// A body as the Gemini API has it.
#[derive(Debug, ToSchema)]
#[schema(value_type = Object)]
#[expect(dead_code, reason = "only its description is used")]
struct GeminiBody(serde_json::Value);

/// What a model call is answered with.
#[derive(Debug, IntoResponses)]
#[expect(dead_code, reason = "only its description is used")]
enum Answers {
    /// As the model API answers, or as hooks do.
    #[response(status = 200)]
    Answer(#[to_schema] GeminiBody),
    /// An error of the model API, as it is.
    #[response(status = "default")]
    OfUpstream(#[to_schema] GeminiBody),
    /// The model API answered what nobody can read, or wants the agent elsewhere.
    #[response(status = 502)]
    Unreadable(GoogleError),
    /// The model API did not answer in time.
    #[response(status = 504)]
    Silent(GoogleError),
}

/// One answer.
#[utoipa::path(post, path = "/v1beta/models/{model}:generateContent", tag = "models",
    params(Model),
    request_body = GeminiBody, responses(Answers, Refusals))]
#[expect(dead_code, reason = "only its description is used")]
fn generate_content() {}

/// An answer in chunks: server-sent events with `alt=sse`, a JSON array without.
#[utoipa::path(post, path = "/v1beta/models/{model}:streamGenerateContent", tag = "models",
    params(Model, Framing),
    request_body = GeminiBody, responses(Answers, Refusals))]
#[expect(dead_code, reason = "only its description is used")]
fn stream_generate_content() {}

/// How many tokens a request has.
#[utoipa::path(post, path = "/v1beta/models/{model}:countTokens", tag = "models",
    params(Model),
    request_body = GeminiBody, responses(Answers, Refusals))]
#[expect(dead_code, reason = "only its description is used")]
fn count_tokens() {}

/// One embedding.
#[utoipa::path(post, path = "/v1beta/models/{model}:embedContent", tag = "models",
    params(Model),
    request_body = GeminiBody, responses(Answers, Refusals))]
#[expect(dead_code, reason = "only its description is used")]
fn embed_content() {}

/// Several embeddings.
#[utoipa::path(post, path = "/v1beta/models/{model}:batchEmbedContents", tag = "models",
    params(Model),
    request_body = GeminiBody, responses(Answers, Refusals))]
#[expect(dead_code, reason = "only its description is used")]
fn batch_embed_contents() {}

/// The models that upstream offers.
#[utoipa::path(
    get,
    path = "/v1beta/models",
    tag = "models",
    responses(Answers, Refusals)
)]
#[expect(dead_code, reason = "only its description is used")]
fn list_models() {}

/// What upstream knows of one model.
#[utoipa::path(
    get,
    path = "/v1beta/models/{model}",
    tag = "models",
    params(Model),
    responses(Answers, Refusals)
)]
#[expect(dead_code, reason = "only its description is used")]
fn get_model() {}
