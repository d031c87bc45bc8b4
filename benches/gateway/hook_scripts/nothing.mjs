// A hook that says nothing. What real ones need is loaded before the event comes:
// the first `console.log` would load it after that.
import { readFileSync, writeSync } from "node:fs";

JSON.parse(readFileSync(0, "utf8"));
writeSync(1, "{}\n");
