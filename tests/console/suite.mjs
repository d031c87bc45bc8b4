// All tests in sequence, with one browser and one gateway.

import { after, before, describe } from "node:test";

import { startBrowser } from "./harness/browser.mjs";
import { cleanUp } from "./harness/gateway.mjs";
import { startFixture } from "./fixture.mjs";
import { accessTests } from "./cases/access.mjs";
import { agentTests } from "./cases/agents.mjs";
import { accessibilityTests } from "./cases/accessibility.mjs";
import { fleetTests } from "./cases/fleet.mjs";
import { hostileTests } from "./cases/hostile.mjs";
import { screenshotTests } from "./cases/screenshots.mjs";
import { proofTests } from "./cases/proof.mjs";
import { taskTests } from "./cases/tasks.mjs";
import { callTests } from "./cases/calls.mjs";

const suite = {};

describe("the console", () => {
  before(async () => {
    [suite.fixture, suite.browser] = await Promise.all([startFixture(), startBrowser()]);
  });
  after(cleanUp);

  screenshotTests(suite); // before other tests add calls
  callTests(suite);
  agentTests(suite);
  taskTests(suite);
  accessibilityTests(suite);
  accessTests(suite);
  proofTests(suite);
  fleetTests(suite);
  hostileTests(suite);
});
