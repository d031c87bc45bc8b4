// `hookgate serve` and `hookgate mock` as processes with a folder and a home of their own.

import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { createInterface } from "node:readline";

export const REPO = path.resolve(import.meta.dirname, "../../..");
export const FIXTURE_FOLDER = path.join(REPO, "tests/console/fixture");
const EXAMPLE_HOOKS = path.join(REPO, "config/examples/hooks");

const START_TIMEOUT = 20_000;
const STOP_TIMEOUT = 5_000;

const cleanups = [];

/** Stops all started processes, the last one first, and removes their folders. */
export async function cleanUp() {
  while (cleanups.length > 0) await cleanups.pop()();
}

/** Registers a function for the cleanup at the end. */
export const onCleanup = (cleanup) => cleanups.push(cleanup);

/** A new folder that is removed at the end. */
export async function temporaryFolder() {
  const folder = await mkdtemp(path.join(tmpdir(), "hookgate-console-"));
  onCleanup(() => rm(folder, { recursive: true, force: true, maxRetries: 3 }));
  return folder;
}

/** The environment of all processes, without variables of this process. */
export const isolatedEnvironment = (home, extra = {}) => ({
  PATH: "/usr/local/bin:/usr/bin:/bin",
  HOME: home,
  LANG: "C.UTF-8",
  TERM: "xterm-256color",
  ...extra,
});

/** Starts a mock model API. Returns its URL. */
export async function startMock(folder) {
  const [url] = await startProcess(folder, ["mock", "--listen", "127.0.0.1:0"], 1);
  return url;
}

/** A gateway with a config of its own. */
export class Gateway {
  /** Starts a gateway whose config is that of the fixture, edited by `change`. `files` are further files of its folder. */
  static async start(upstream, change = (config) => config, files = {}) {
    const gateway = new Gateway();
    gateway.folder = await temporaryFolder();
    await cp(FIXTURE_FOLDER, gateway.folder, { recursive: true });
    await cp(EXAMPLE_HOOKS, path.join(gateway.folder, "hooks"), { recursive: true });
    for (const [name, text] of Object.entries(files)) await writeFile(path.join(gateway.folder, name), text);
    gateway.configFile = path.join(gateway.folder, "hookgate.yaml");
    await gateway.edit((config) => change(config).replaceAll("http://127.0.0.1:9090", upstream));
    const command = ["serve", "--config", "hookgate.yaml"];
    [gateway.agents, gateway.admin] = await startProcess(gateway.folder, command, 2);
    return gateway;
  }

  async config() {
    return readFile(this.configFile, "utf8");
  }

  async edit(change) {
    await writeFile(this.configFile, change(await this.config()));
  }

  /** `hookgate.yaml:LINE` of the first line of the config that has this text. */
  async lineOf(text) {
    const lines = (await this.config()).split("\n");
    return `hookgate.yaml:${lines.findIndex((line) => line.includes(text)) + 1}`;
  }

  /** JSON of the admin listener, as the user olga. */
  async get(address) {
    const headers = { authorization: "Bearer olga-token" };
    const response = await fetch(this.admin + address, { headers });
    if (!response.ok) throw new Error(`${address}: ${response.status} ${await response.text()}`);
    return response.json();
  }

  /** Starts a shadow of the changed config, as the user olga. */
  async startShadow(change) {
    const headers = { authorization: "Bearer olga-token", "content-type": "application/yaml" };
    const body = change(await this.config());
    const response = await fetch(`${this.admin}/shadow?sample=1`, { method: "POST", headers, body });
    if (!response.ok) throw new Error(await response.text());
  }

  /** Sends a model call and reads its answer to the end. */
  async call(caller, prompt, { session, model = "gemini-2.5-flash", stream = false, headers = {}, body = {} } = {}) {
    const prefix = session ? `/s/${session}` : "";
    const method = stream ? "streamGenerateContent?alt=sse" : "generateContent";
    const contents = [{ role: "user", parts: [{ text: prompt }] }];
    return this.post(caller, `${prefix}/v1beta/models/${model}:${method}`, { contents, ...body }, headers);
  }

  /** Reports an event as an agent does. */
  async report(caller, event) {
    return this.post(caller, "/hookgate/v1/events?wait=1", event);
  }

  async post(caller, address, body, headers = {}) {
    const response = await fetch(this.agents + address, {
      method: "POST",
      headers: { "content-type": "application/json", "x-hookgate-key": `${caller}-key`, ...headers },
      body: JSON.stringify(body),
    });
    return { status: response.status, id: response.headers.get("x-hookgate-request-id"), text: await response.text() };
  }
}

/** Starts a command of hookgate. Returns the URLs in its first lines. */
async function startProcess(folder, command, urls) {
  const log = [];
  const options = { cwd: folder, env: isolatedEnvironment(folder), stdio: ["ignore", "pipe", "pipe"] };
  const child = spawn(binary(), command, options);
  const exited = new Promise((resolve) => child.on("exit", resolve));
  child.stderr.on("data", (data) => {
    log.push(String(data));
    log.splice(0, log.length - 50);
  });
  onCleanup(async () => {
    child.kill("SIGTERM");
    const timer = setTimeout(() => child.kill("SIGKILL"), STOP_TIMEOUT);
    await exited;
    clearTimeout(timer);
  });
  const listening = [];
  const lines = createInterface({ input: child.stdout });
  const started = (async () => {
    for await (const line of lines) {
      if (line.includes(" on http://")) listening.push(line.split(" on ")[1].trim());
      if (listening.length === urls) return true;
    }
    return false;
  })();
  let timer;
  const timedOut = new Promise((resolve) => {
    timer = setTimeout(() => resolve(false), START_TIMEOUT);
  });
  const isStarted = await Promise.race([started, timedOut]);
  clearTimeout(timer);
  if (!isStarted) throw new Error(`\`hookgate ${command[0]}\` did not start: ${log.join("")}`);
  child.stdout.resume();
  return listening;
}

/** Path of the binary under test. */
export function binary() {
  const target = process.env.CARGO_TARGET_DIR ?? path.join(REPO, "target");
  const file = path.resolve(process.env.HOOKGATE ?? path.join(target, "debug/hookgate"));
  if (!existsSync(file)) throw new Error(`there is no hookgate at ${file}; build it, or set HOOKGATE to its path`);
  return file;
}
