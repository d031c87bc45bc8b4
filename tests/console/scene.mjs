// What the tests look at: a gateway of a team after some traffic, in part of the real gemini-cli.

import { Gateway, startMock, temporaryFolder } from "./harness/gateway.mjs";
import { gemini } from "./harness/gemini.mjs";
import { until } from "./harness/browser.mjs";

/** Starts the gateway and sends the traffic. */
export async function openScene() {
  const mock = await startMock(await temporaryFolder());
  const gateway = await Gateway.start(mock);
  await gateway.edit((config) => config.replace("(?i)project aurora", "(?i)project (aurora|borealis)"));
  await until("the changed config", async () => (await gateway.get("/config")).revisions.length === 2);
  const said = gemini(gateway, "team-a", 'Use run_shell_command {"command":"rm -rf build"}');
  await sendCalls(gateway);
  const scene = { mock, gateway, said: await said };
  const page = await until("the call of gemini-cli", async () => {
    const { calls } = await gateway.get("/calls?verdict=deny&tool=run_shell_command&caller=team-a");
    return calls.length > 0 && calls;
  });
  scene.denied = page[0].id;
  scene.edited = (await gateway.get("/calls?edited=answer&session=sprint-42")).calls[0].id;
  return scene;
}

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
  await gateway.post("ci", "/v1beta/unknown", {});
  await gateway.post("ci", "/v1beta/models/gemini-2.5-flash:countTokens", { contents: [{ parts: [{ text: "one two" }] }] });
}

/** Every page: its name in the documentation, and its address. */
export const pages = (scene) => [
  ["overview", "/console/"],
  ["calls", "/console/calls"],
  ["call", `/console/calls/${scene.denied}`],
  ["content", `/console/calls/${scene.edited}?content=1#content-of-call`],
  ["sessions", "/console/sessions"],
  ["session", "/console/sessions/sprint-42"],
  ["denials", "/console/denials"],
  ["test", `/console/calls/${scene.denied}/test`],
  ["rules", "/console/rules"],
  ["coverage", "/console/coverage"],
  ["config", "/console/config?from=1&to=0"],
  ["try", `/console/try?call=${scene.edited}`],
];
