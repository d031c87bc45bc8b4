// A Redis of its own, for gateways that share one.

import { spawn } from "node:child_process";
import { createServer } from "node:net";

import { waitUntil } from "./browser.mjs";
import { onCleanup } from "./gateway.mjs";

/** Starts a Redis without persistence. Returns its URL. */
export async function startRedis() {
  const port = await freePort();
  const options = ["--bind", "127.0.0.1", "--port", String(port), "--save", ""];
  const child = spawn("redis-server", options, { stdio: ["ignore", "pipe", "ignore"] });
  const ended = new Promise((resolve) => child.on("exit", resolve));
  onCleanup(async () => {
    child.kill("SIGKILL");
    await ended;
  });
  let log = "";
  child.stdout.on("data", (data) => (log += data));
  await waitUntil("Redis", async () => log.includes("Ready to accept connections"));
  return `redis://127.0.0.1:${port}`;
}

async function freePort() {
  const server = createServer();
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}
