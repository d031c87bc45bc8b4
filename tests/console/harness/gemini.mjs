// The real gemini-cli in a temporary home.

import { execFile } from "node:child_process";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { promisify } from "node:util";

import { REPO, isolatedEnvironment, temporaryFolder } from "./gateway.mjs";

const BIN = path.join(REPO, ".scratch/clients/node_modules/.bin");
const GATEWAY_SETTINGS = path.join(REPO, "config/agents/pointed/gemini-cli.api-key.settings.json");
const TIMEOUT = 60_000;

const SETTINGS = {
  general: { enableAutoUpdate: false, enableAutoUpdateNotification: false },
  privacy: { usageStatisticsEnabled: false },
  telemetry: { enabled: false },
};

/** Runs gemini-cli with one prompt and every tool approved. Returns its output. */
export async function gemini(gateway, caller, prompt) {
  const home = await temporaryFolder();
  const project = path.join(home, "project");
  await mkdir(project);
  await mkdir(path.join(home, ".gemini"));
  const settings = JSON.parse(await readFile(GATEWAY_SETTINGS, "utf8"));
  const security = { folderTrust: { enabled: false }, ...settings.security };
  await writeFile(path.join(home, ".gemini/settings.json"), JSON.stringify({ ...SETTINGS, security }));
  const env = isolatedEnvironment(home, { GOOGLE_GEMINI_BASE_URL: gateway.agents, GEMINI_API_KEY: `${caller}-key` });
  env.PATH = `${BIN}:${env.PATH}`;
  const command = [path.join(BIN, "gemini"), "-m", "gemini-2.5-flash", "--yolo", "-p", prompt];
  const run = promisify(execFile)(path.join(BIN, "node"), command, { cwd: project, env, timeout: TIMEOUT });
  run.child.stdin.end();
  return (await run).stdout;
}
