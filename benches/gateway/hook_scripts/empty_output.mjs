// A hook with empty output. Modules are loaded before the event is read; the first
// `console.log` would load some after that.
import { readFileSync, writeSync } from "node:fs";

JSON.parse(readFileSync(0, "utf8"));
writeSync(1, "{}\n");
