#!/usr/bin/env node
// BeforeTool, as a worker: no forced push.
import { createInterface } from "node:readline";

function answer(event) {
  const command = String(event.tool_input?.command ?? "");
  return /\bgit\b.*\bpush\b.*(--force\b|\s-f\b)/s.test(command)
    ? { decision: "deny", reason: "no forced push" }
    : {};
}

// A call is one line, and so is its answer. Whatever goes wrong ends the
// worker, which fails the call and starts another one.
for await (const line of createInterface({ input: process.stdin })) {
  const { id, input } = JSON.parse(line);
  console.log(JSON.stringify({ id, output: answer(input) }));
}
