// All tests, one after the other, with one browser and one gateway.

import { after, before, describe } from "node:test";

import { startBrowser } from "./harness/browser.mjs";
import { stopAll } from "./harness/gateway.mjs";
import { openScene } from "./scene.mjs";
import { accessTests } from "./cases/access.mjs";
import { agentTests } from "./cases/agents.mjs";
import { accessibilityTests } from "./cases/accessibility.mjs";
import { fleetTests } from "./cases/fleet.mjs";
import { hostileTests } from "./cases/hostile.mjs";
import { pictureTests } from "./cases/pictures.mjs";
import { proofTests } from "./cases/proof.mjs";
import { taskTests } from "./cases/tasks.mjs";
import { callTests } from "./cases/calls.mjs";

const stage = {};

describe("the console", () => {
  before(async () => {
    [stage.scene, stage.browser] = await Promise.all([openScene(), startBrowser()]);
  });
  after(stopAll);

  pictureTests(stage); // first, before other tests add calls
  callTests(stage);
  agentTests(stage);
  taskTests(stage);
  accessibilityTests(stage);
  accessTests(stage);
  proofTests(stage);
  fleetTests(stage);
  hostileTests(stage);
});
