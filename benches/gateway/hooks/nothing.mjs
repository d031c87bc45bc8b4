// A hook that says nothing.
import { readFileSync } from "node:fs";

JSON.parse(readFileSync(0, "utf8"));
console.log("{}");
