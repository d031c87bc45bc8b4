//! The `OpenAPI` document, made from the code.

use utoipa::OpenApi;

use crate::{
    admin,
    api::{self, Explanation, GoogleError},
};

/// Everything that agents and operators may call.
#[derive(Debug, OpenApi)]
#[openapi(
    info(
        title = "hookgate",
        description = "A gateway that runs hooks between AI agents and a Gemini-style model API."
    ),
    paths(
        api::report::report_event,
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
        admin::reload
    ),
    tags(
        (name = "events", description = "Tool, agent and session events, on the agents' port."),
        (name = "models", description = "Model calls as the Gemini API has them, on the agents' port. Also under `/v1`, `/v1alpha`, without a version, and under `/s/{session}`."),
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
