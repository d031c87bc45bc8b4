// The gateway that most tests use: that of a team after some traffic, in part of the real gemini-cli.

import { Gateway, startMock, temporaryFolder } from "./harness/gateway.mjs";
import { gemini } from "./harness/gemini.mjs";
import { startRedis } from "./harness/redis.mjs";
import { waitUntil } from "./harness/browser.mjs";

/** Starts the gateway and sends the traffic. */
export async function startFixture() {
  const mock = await startMock(await temporaryFolder());
  const files = { "redis-url": await startRedis() };
  // It lags behind as soon as the config of the other one is edited.
  await Gateway.start(mock, shareLimits, files);
  const gateway = await Gateway.start(mock, shareLimits, files);
  await gateway.edit((config) => config.replace("(?i)project aurora", "(?i)project (aurora|borealis)"));
  await waitUntil("the changed config", async () => (await gateway.get("/config")).revisions.length === 2);
  await waitUntil("the fleet", async () => isLagging(await gateway.get("/fleet")));
  await gateway.startShadow((config) => config.replace("(aurora|borealis)", "(borealis|rivers)"));
  const geminiOutput = gemini(gateway, "team-a", 'Use run_shell_command {"command":"rm -rf build"}');
  await sendCalls(gateway);
  const fixture = { mock, gateway, geminiOutput: await geminiOutput };
  const denied = await waitUntil("the call of gemini-cli", async () => {
    const { calls } = await gateway.get("/calls?verdict=deny&tool=run_shell_command&caller=team-a");
    return calls.length > 0 && calls;
  });
  fixture.deniedId = denied[0].id;
  await waitUntil("a call that only the shadow allows", async () => {
    const { report } = await gateway.get("/shadow");
    return report?.counts.newly_allowed > 0;
  });
  fixture.claudeId = (await gateway.get("/calls?dialect=anthropic")).calls[0].id;
  fixture.editedId = (await gateway.get("/calls?edited=answer&session=sprint-42")).calls[0].id;
  return fixture;
}

const LIMITS = "auth:\n  limits: { store: { redis: { url: { file: redis-url } } } }\n";

/** Limits callers in a Redis, so that the gateways are a fleet. */
const shareLimits = (config) => config.replace("auth:\n", LIMITS);

const isLagging = ({ replicas }) => replicas.length === 2 && replicas.some((replica) => replica.is_lagging);

async function sendCalls(gateway) {
  const pro = "gemini-2.5-pro";
  await gateway.call("team-a", "Write to ann@example.com", { session: "sprint-42", model: pro });
  await gateway.call("team-a", "Write to ann@example.com and to bob@example.com", { session: "sprint-42", stream: true });
  await gateway.call("team-a", "Explain the build", { session: "sprint-42", model: pro, stream: true });
  await gateway.call("team-a", "What is ticket 0?", { session: "support", model: pro });
  for (const question of ["Summarise", "Who leads", "Translate", "Draft a page on", "What is"]) {
    await gateway.call("ci", `${question} project aurora`, { session: "release-notes", stream: true });
  }
  await gateway.call("ci", "List the changes since the last release", { session: "release-notes" });
  await gateway.call("nightly", "Is project aurora on time?", { session: "report" });
  await gateway.call("nightly", "Count the open tickets", { session: "report", model: pro });
  const event = { hook_event_name: "BeforeTool", session_id: "report", tool_name: "write_file" };
  await gateway.report("nightly", { ...event, tool_input: { file_path: "notes.md", content: "ok" } });
  await gateway.report("nightly", { ...event, tool_input: { file_path: "package-lock.json", content: "{}" } });
  await sendCallsOfOtherApis(gateway);
  await gateway.post("ci", "/v1beta/unknown", {});
  await gateway.post("ci", "/v1beta/models/gemini-2.5-flash:countTokens", { contents: [{ parts: [{ text: "one two" }] }] });
}

/** Calls as Claude Code, Codex and an agent of Chat Completions make them. */
async function sendCallsOfOtherApis(gateway) {
  await gateway.post("team-b", "/v1/messages", claudeCall('Use Bash {"command":"rm -rf build"}'), CLAUDE_HEADERS);
  const instructions = "You are a coding agent.";
  const responses = { model: "gpt-5", instructions, store: false, stream: true, prompt_cache_key: "codex-17" };
  const codex = { "user-agent": "codex_exec/0.169.0 (Debian)" };
  const shell = { type: "function", name: "exec_command", parameters: { type: "object", properties: { cmd: { type: "string" } } } };
  await gateway.post("team-b", "/v1/responses", { ...responses, tools: [shell], input: "Plan the next step" }, codex);
  const messages = [{ role: "user", content: "Compare project aurora with others" }];
  await gateway.post("team-b", "/s/notebook/v1/chat/completions", { model: "gpt-5-mini", messages });
}

const CLAUDE_HEADERS = {
  "anthropic-version": "2023-06-01",
  "anthropic-beta": "interleaved-thinking-2025-05-14",
  "user-agent": "claude-cli/2.1.330 (external, cli)",
  "x-app": "cli",
};

/** A call like that of Claude Code, whose history contains an image. */
function claudeCall(prompt) {
  const text = (content) => ({ type: "text", text: content });
  const image = { type: "image", source: { type: "base64", media_type: "image/png", data: PIXEL } };
  const tool = (name, field) => ({
    name,
    description: `The tool ${name}.`,
    input_schema: { type: "object", properties: { [field]: { type: "string" } }, required: [field] },
  });
  return {
    model: "claude-sonnet-4-5",
    max_tokens: 32000,
    stream: true,
    thinking: { type: "enabled", budget_tokens: 2048 },
    metadata: { user_id: JSON.stringify({ device_id: "d1", account_uuid: "", session_id: CLAUDE_SESSION }) },
    system: [{ ...text("You are a coding agent. Answer briefly."), cache_control: { type: "ephemeral" } }],
    tools: [tool("Bash", "command"), tool("Read", "file_path")],
    messages: [
      { role: "user", content: "What is on the plan?" },
      {
        role: "assistant",
        content: [
          { type: "thinking", thinking: "The plan is a picture.", signature: "c2lnbmF0dXJl" },
          text("I will look at it."),
          { type: "tool_use", id: "toolu_plan", name: "Read", input: { file_path: "plan.png" } },
        ],
      },
      {
        role: "user",
        content: [{ type: "tool_result", tool_use_id: "toolu_plan", content: [text("1 image, 1 x 1"), image] }],
      },
      { role: "assistant", content: [text("There is one point on it.")] },
      { role: "user", content: [text(prompt)] },
    ],
  };
}

export const CLAUDE_SESSION = "0b7c5c0e-6f0a-4d53-9d4b-6a3f2f0c1d11";

// A PNG of one pixel.
const PIXEL =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/** All pages: their names in the documentation, and their addresses. */
export const pages = (fixture) => [
  ["overview", "/console/"],
  ["calls", "/console/calls"],
  ["call", `/console/calls/${fixture.deniedId}`],
  ["content", `/console/calls/${fixture.editedId}?content=1#content-of-call`],
  ["conversation", `/console/calls/${fixture.claudeId}?content=1#content-of-call`],
  ["sessions", "/console/sessions"],
  ["session", "/console/sessions/sprint-42"],
  ["denials", "/console/denials"],
  ["test", `/console/calls/${fixture.deniedId}/test`],
  ["rules", "/console/rules"],
  ["coverage", "/console/coverage"],
  ["config", "/console/config?from=1&to=0"],
  ["changes", "/console/changes"],
  ["fleet", "/console/fleet"],
  ["try", `/console/try?call=${fixture.editedId}`],
];
