//! Method table of OpenAI's API, but for its chat completions.

use crate::dialect::method::{
    Access::{self, ByName, Open, Socket},
    Api, MethodSpec,
    Operation::{CountTokens, Embed, Generate, Other},
    method_table,
};

/// Access of secrets with which an agent calls the API itself.
const SECRET: Access = Access::Never("creates a key for calls that bypass hookgate");

/// Access of agents that run at the provider.
const AGENTS: Access = Access::Never("runs a model where hookgate does not see its calls");

/// Access of the administration API.
const ADMINISTRATION: Access = Access::Never("administers the organization with a key of its own");

/// Access of sessions over other protocols.
const REALTIME: Access = Access::Never("belongs to a session that hookgate does not carry");

/// Access of unlisted methods of an API that is deprecated.
const ASSISTANTS: Access = Access::Never("is no listed method of the deprecated Assistants API");

method_table! { OpenAiResponses:
    POST "/{version}/responses" "responses.create" Generate, Open;
    GET "/{version}/responses" "responses.connect" Other, Socket;
    POST "/{version}/responses/input_tokens" "responses.input_tokens" CountTokens, Open;
    POST "/{version}/responses/compact" "responses.compact" CountTokens, Open;
    // Hooks see the responses that these two return like created ones.
    GET "/{version}/responses/{response}" "responses.retrieve" Generate, ByName;
    POST "/{version}/responses/{response}/cancel" "responses.cancel" Generate, ByName;
    GET "/{version}/responses/{response}/input_items" "responses.input_items.list" Other, ByName;
    DELETE "/{version}/responses/{response}" "responses.delete" Other, ByName;
    POST "/{version}/embeddings" "embeddings.create" Embed, Open;
    POST "/{version}/moderations" "moderations.create" Embed, Open;
    POST "/{version}/completions" "completions.create" Embed, ByName;
    GET "/{version}/models" "openai_api.models.list" Other, Open;
    GET "/{version}/models/{model}" "openai_api.models.retrieve" Other, Open;
    DELETE "/{version}/models/{model}" "openai_api.models.delete" Other, ByName;
    POST "/{version}/conversations" "conversations.create" Other, ByName;
    GET "/{version}/conversations/{conversation}" "conversations.retrieve" Other, ByName;
    POST "/{version}/conversations/{conversation}" "conversations.update" Other, ByName;
    DELETE "/{version}/conversations/{conversation}" "conversations.delete" Other, ByName;
    POST "/{version}/conversations/{conversation}/items" "conversations.items.create" Other, ByName;
    GET "/{version}/conversations/{conversation}/items" "conversations.items.list" Other, ByName;
    GET "/{version}/conversations/{conversation}/items/{item}" "conversations.items.retrieve" Other, ByName;
    DELETE "/{version}/conversations/{conversation}/items/{item}" "conversations.items.delete" Other, ByName;
    POST "/{version}/images/generations" "images.generate" Other, ByName;
    POST "/{version}/images/edits" "images.edit" Other, ByName;
    POST "/{version}/images/variations" "images.create_variation" Other, ByName;
    POST "/{version}/audio/speech" "audio.speech.create" Other, ByName;
    POST "/{version}/audio/transcriptions" "audio.transcriptions.create" Other, ByName;
    POST "/{version}/audio/translations" "audio.translations.create" Other, ByName;
    POST "/{version}/videos" "videos.create" Other, ByName;
    GET "/{version}/videos" "videos.list" Other, ByName;
    GET "/{version}/videos/{video}" "videos.retrieve" Other, ByName;
    DELETE "/{version}/videos/{video}" "videos.delete" Other, ByName;
    GET "/{version}/videos/{video}/content" "videos.download_content" Other, ByName;
    POST "/{version}/videos/{video}/remix" "videos.remix" Other, ByName;
    GET "/{version}/realtime" "realtime.connect" Other, Socket;
    POST "/{version}/realtime/calls" "realtime.calls.create" Other, Socket;
    POST "/{version}/realtime/client_secrets" "realtime.client_secrets.create" Other, SECRET;
    POST "/{version}/realtime/sessions" "realtime.sessions.create" Other, SECRET;
    POST "/{version}/realtime/transcription_sessions" "realtime.transcription_sessions.create" Other, SECRET;
    POST "/{version}/files" "openai_api.files.create" Other, ByName;
    GET "/{version}/files" "openai_api.files.list" Other, ByName;
    GET "/{version}/files/{file}" "openai_api.files.retrieve" Other, ByName;
    DELETE "/{version}/files/{file}" "openai_api.files.delete" Other, ByName;
    GET "/{version}/files/{file}/content" "openai_api.files.content" Other, ByName;
    POST "/{version}/uploads" "uploads.create" Other, ByName;
    POST "/{version}/uploads/{upload}/parts" "uploads.parts.create" Other, ByName;
    POST "/{version}/uploads/{upload}/complete" "uploads.complete" Other, ByName;
    POST "/{version}/uploads/{upload}/cancel" "uploads.cancel" Other, ByName;
    POST "/{version}/batches" "openai_api.batches.create" Other, ByName;
    GET "/{version}/batches" "openai_api.batches.list" Other, ByName;
    GET "/{version}/batches/{batch}" "openai_api.batches.retrieve" Other, ByName;
    POST "/{version}/batches/{batch}/cancel" "openai_api.batches.cancel" Other, ByName;
    POST "/{version}/vector_stores" "vector_stores.create" Other, ByName;
    GET "/{version}/vector_stores" "vector_stores.list" Other, ByName;
    GET "/{version}/vector_stores/{store}" "vector_stores.retrieve" Other, ByName;
    POST "/{version}/vector_stores/{store}" "vector_stores.update" Other, ByName;
    DELETE "/{version}/vector_stores/{store}" "vector_stores.delete" Other, ByName;
    POST "/{version}/vector_stores/{store}/search" "vector_stores.search" Other, ByName;
    POST "/{version}/vector_stores/{store}/files" "vector_stores.files.create" Other, ByName;
    GET "/{version}/vector_stores/{store}/files" "vector_stores.files.list" Other, ByName;
    GET "/{version}/vector_stores/{store}/files/{file}" "vector_stores.files.retrieve" Other, ByName;
    DELETE "/{version}/vector_stores/{store}/files/{file}" "vector_stores.files.delete" Other, ByName;
    POST "/{version}/containers" "containers.create" Other, ByName;
    GET "/{version}/containers" "containers.list" Other, ByName;
    GET "/{version}/containers/{container}" "containers.retrieve" Other, ByName;
    DELETE "/{version}/containers/{container}" "containers.delete" Other, ByName;
    POST "/{version}/containers/{container}/files" "containers.files.create" Other, ByName;
    GET "/{version}/containers/{container}/files" "containers.files.list" Other, ByName;
    GET "/{version}/containers/{container}/files/{file}/content" "containers.files.content" Other, ByName;
    POST "/{version}/skills" "skills.create" Other, ByName;
    GET "/{version}/skills" "skills.list" Other, ByName;
    GET "/{version}/skills/{skill}" "skills.retrieve" Other, ByName;
    DELETE "/{version}/skills/{skill}" "skills.delete" Other, ByName;
    POST "/{version}/fine_tuning/jobs" "fine_tuning.jobs.create" Other, ByName;
    GET "/{version}/fine_tuning/jobs" "fine_tuning.jobs.list" Other, ByName;
    GET "/{version}/fine_tuning/jobs/{job}" "fine_tuning.jobs.retrieve" Other, ByName;
    POST "/{version}/fine_tuning/jobs/{job}/cancel" "fine_tuning.jobs.cancel" Other, ByName;
    GET "/{version}/fine_tuning/jobs/{job}/events" "fine_tuning.jobs.list_events" Other, ByName;
    POST "/{version}/evals" "evals.create" Other, ByName;
    GET "/{version}/evals" "evals.list" Other, ByName;
    GET "/{version}/evals/{eval}" "evals.retrieve" Other, ByName;
    POST "/{version}/evals/{eval}/runs" "evals.runs.create" Other, ByName;
    GET "/{version}/evals/{eval}/runs/{run}" "evals.runs.retrieve" Other, ByName;
    POST "/{version}/assistants" "assistants.create" Other, ByName;
    GET "/{version}/assistants" "assistants.list" Other, ByName;
    GET "/{version}/assistants/{assistant}" "assistants.retrieve" Other, ByName;
    POST "/{version}/threads" "threads.create" Other, ByName;
    GET "/{version}/threads/{thread}" "threads.retrieve" Other, ByName;
    POST "/{version}/threads/runs" "threads.create_and_run" Other, ByName;
    POST "/{version}/threads/{thread}/messages" "threads.messages.create" Other, ByName;
    GET "/{version}/threads/{thread}/messages" "threads.messages.list" Other, ByName;
    POST "/{version}/threads/{thread}/runs" "threads.runs.create" Other, ByName;
    GET "/{version}/threads/{thread}/runs/{run}" "threads.runs.retrieve" Other, ByName;
    POST "/{version}/chatkit/sessions" "chatkit.sessions.create" Other, SECRET;
    POST "/{version}/agents" "agents.create" Other, AGENTS;
    GET "/{version}/agents" "agents.list" Other, AGENTS;
    POST "/{version}/agents/{agent}/runs" "agents.runs.create" Other, AGENTS;
    POST "/{version}/agents/{agent}/sessions" "agents.sessions.create" Other, AGENTS;
    POST "/{version}/vaults" "vaults.create" Other, AGENTS;
    GET "/{version}/vaults" "vaults.list" Other, AGENTS;
    POST "/{version}/webhook_endpoints" "webhook_endpoints.create" Other, AGENTS;
    // Families that are refused as a whole, but for the methods above.
    ANY "/{version}/organization/{path*}" "organization.others" Other, ADMINISTRATION;
    ANY "/{version}/projects/{id}/roles" "projects.others" Other, ADMINISTRATION;
    ANY "/{version}/projects/{id}/roles/{path*}" "projects.others" Other, ADMINISTRATION;
    ANY "/{version}/projects/{id}/groups/{path*}" "projects.others" Other, ADMINISTRATION;
    ANY "/{version}/projects/{id}/users/{path*}" "projects.others" Other, ADMINISTRATION;
    ANY "/{version}/realtime/{path*}" "realtime.others" Other, REALTIME;
    ANY "/{version}/live/{path*}" "openai_api.live.others" Other, REALTIME;
    ANY "/{version}/assistants/{path*}" "assistants.others" Other, ASSISTANTS;
    ANY "/{version}/threads/{path*}" "threads.others" Other, ASSISTANTS;
    ANY "/{version}/chatkit/{path*}" "chatkit.others" Other, AGENTS;
    ANY "/{version}/agents/{path*}" "agents.others" Other, AGENTS;
    ANY "/{version}/vaults/{path*}" "vaults.others" Other, AGENTS;
    ANY "/{version}/webhook_endpoints/{path*}" "webhook_endpoints.others" Other, AGENTS;
}
