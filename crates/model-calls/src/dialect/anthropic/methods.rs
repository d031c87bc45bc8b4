//! Method table of the Messages API. Managed agents and content stored upstream are listed by
//! family, so that a refusal names them.

use crate::dialect::method::{
    Access::{self, ByName, Never, Open},
    Api, MethodSpec,
    Operation::{CountTokens, Generate, Other},
    method_table,
};

/// Access of Managed Agents.
const MANAGED_AGENTS: Access =
    Never("runs an agent upstream, whose model and tool calls do not pass hookgate");

/// Access of the legacy completions.
const LEGACY: Access = Never("is the legacy text API, which current models do not have");

/// Access of the administration API.
const ADMINISTRATION: Access = Never("administers the organization with a key of its own");

method_table! { Anthropic:
    POST "/{version}/messages" "messages.create" Generate, Open;
    POST "/{version}/messages/count_tokens" "messages.count_tokens" CountTokens, Open;
    GET "/{version}/models" "anthropic.models.list" Other, Open;
    GET "/{version}/models/{model}" "anthropic.models.retrieve" Other, Open;
    // Claude Code sends it at every start. It carries nothing.
    HEAD "/api/hello" "anthropic.hello" Other, Open;
    POST "/{version}/messages/batches" "messages.batches.create" Other, ByName;
    GET "/{version}/messages/batches" "messages.batches.list" Other, ByName;
    GET "/{version}/messages/batches/{batch}" "messages.batches.retrieve" Other, ByName;
    DELETE "/{version}/messages/batches/{batch}" "messages.batches.delete" Other, ByName;
    POST "/{version}/messages/batches/{batch}/cancel" "messages.batches.cancel" Other, ByName;
    GET "/{version}/messages/batches/{batch}/results" "messages.batches.results" Other, ByName;
    POST "/{version}/complete" "anthropic.complete" Other, LEGACY;
    POST "/{version}/files" "anthropic.files.upload" Other, ByName;
    GET "/{version}/files" "anthropic.files.list" Other, ByName;
    GET "/{version}/files/{file}" "anthropic.files.retrieve_metadata" Other, ByName;
    DELETE "/{version}/files/{file}" "anthropic.files.delete" Other, ByName;
    GET "/{version}/files/{file}/content" "anthropic.files.download" Other, ByName;
    POST "/{version}/skills" "anthropic.skills.create" Other, ByName;
    GET "/{version}/skills" "anthropic.skills.list" Other, ByName;
    GET "/{version}/skills/{skill}" "anthropic.skills.retrieve" Other, ByName;
    DELETE "/{version}/skills/{skill}" "anthropic.skills.delete" Other, ByName;
    POST "/{version}/skills/{skill}/versions" "anthropic.skills.versions.create" Other, ByName;
    GET "/{version}/skills/{skill}/versions" "anthropic.skills.versions.list" Other, ByName;
    POST "/{version}/memory_stores" "anthropic.memory_stores.create" Other, ByName;
    GET "/{version}/memory_stores" "anthropic.memory_stores.list" Other, ByName;
    GET "/{version}/memory_stores/{store}" "anthropic.memory_stores.retrieve" Other, ByName;
    POST "/{version}/memory_stores/{store}" "anthropic.memory_stores.update" Other, ByName;
    DELETE "/{version}/memory_stores/{store}" "anthropic.memory_stores.delete" Other, ByName;
    POST "/{version}/dreams" "anthropic.dreams.create" Other, ByName;
    GET "/{version}/dreams" "anthropic.dreams.list" Other, ByName;
    POST "/{version}/user_profiles" "anthropic.user_profiles.create" Other, ByName;
    GET "/{version}/user_profiles" "anthropic.user_profiles.list" Other, ByName;
    POST "/{version}/agents" "anthropic.agents.create" Other, MANAGED_AGENTS;
    GET "/{version}/agents" "anthropic.agents.list" Other, MANAGED_AGENTS;
    POST "/{version}/sessions" "anthropic.sessions.create" Other, MANAGED_AGENTS;
    GET "/{version}/sessions" "anthropic.sessions.list" Other, MANAGED_AGENTS;
    POST "/{version}/sessions/{session}/events" "anthropic.sessions.events.send" Other, MANAGED_AGENTS;
    GET "/{version}/sessions/{session}/events" "anthropic.sessions.events.list" Other, MANAGED_AGENTS;
    POST "/{version}/environments" "anthropic.environments.create" Other, MANAGED_AGENTS;
    GET "/{version}/environments/{environment}/work/poll" "anthropic.environments.work.poll" Other, MANAGED_AGENTS;
    POST "/{version}/deployments" "anthropic.deployments.create" Other, MANAGED_AGENTS;
    GET "/{version}/deployment_runs" "anthropic.deployment_runs.list" Other, MANAGED_AGENTS;
    POST "/{version}/vaults" "anthropic.vaults.create" Other, MANAGED_AGENTS;
    GET "/{version}/vaults" "anthropic.vaults.list" Other, MANAGED_AGENTS;
    GET "/{version}/organizations/me" "anthropic.organizations.me" Other, ADMINISTRATION;
    // Families that are refused as a whole, but for the methods above.
    ANY "/{version}/agents/{path*}" "anthropic.agents.others" Other, MANAGED_AGENTS;
    ANY "/{version}/sessions/{path*}" "anthropic.sessions.others" Other, MANAGED_AGENTS;
    ANY "/{version}/environments/{path*}" "anthropic.environments.others" Other, MANAGED_AGENTS;
    ANY "/{version}/deployments/{path*}" "anthropic.deployments.others" Other, MANAGED_AGENTS;
    ANY "/{version}/deployment_runs/{path*}" "anthropic.deployment_runs.others" Other, MANAGED_AGENTS;
    ANY "/{version}/vaults/{path*}" "anthropic.vaults.others" Other, MANAGED_AGENTS;
    ANY "/{version}/organizations/{path*}" "anthropic.organizations.others" Other, ADMINISTRATION;
    // Claude Code sends these to Anthropic's own host, whatever the base URL.
    GET "/api/oauth/profile" "claude_code.oauth.profile" Other, ByName;
    GET "/api/oauth/usage" "claude_code.oauth.usage" Other, ByName;
    POST "/api/claude_cli/bootstrap" "claude_code.bootstrap" Other, ByName;
    POST "/api/event_logging/batch" "claude_code.event_logging" Other, ByName;
}
