// Texts of agents, models and hooks that run scripts in a page that does not escape them.

import assert from "node:assert/strict";
import { it } from "node:test";

import { Window, waitUntil, withWindow } from "../harness/browser.mjs";
import { Gateway } from "../harness/gateway.mjs";
import { HOSTILE, callsOfOtherApis, displayed, startHostileHook, startHostileModel } from "../harness/hostile.mjs";

/** Tabs that are open at the same time. */
const TABS = 4;

const TEXTS_PER_CALL = 5;

const TEXTS_PER_CONVERSATION = 25;

export function hostileTests(suite) {
  it("a window reports a script that runs, a violated policy and a foreign request", async () => {
    const { browser, fixture: { gateway } } = suite;
    const window = await Window.open(browser, gateway);
    const pages = {
      "/ran": ["", "<script>window.__xss=1</script>", /a hostile script ran/],
      "/policy": ["default-src 'none'", "<script>window.__xss=1</script>", /policy violation: script-src-elem inline/],
      "/foreign": ["", '<img src="http://127.0.0.1:9/x.png">', /request of http:\/\/127\.0\.0\.1:9/],
    };
    for (const [address, [policy, body, expected]] of Object.entries(pages)) {
      const headers = { "content-type": "text/html", "content-security-policy": policy };
      await window.context.route(`**${address}`, (route) => route.fulfill({ headers, body }));
      await window.visit(address);
      await waitUntil(address, () => window.problems.some((problem) => expected.test(problem)));
    }
    await window.context.close();
  });

  it("no text of a conversation of any API runs a script", async () => {
    const { browser } = suite;
    const gateway = await startHostileGateway();
    const calls = [];
    for (let start = 0; start < HOSTILE.length; start += TEXTS_PER_CONVERSATION) {
      const texts = HOSTILE.slice(start, start + TEXTS_PER_CONVERSATION);
      for (const [address, body] of callsOfOtherApis(texts)) {
        const { id } = await gateway.post("team-a", address, body);
        calls.push({ id, texts, address });
      }
    }
    await withWindow(browser, gateway, { user: "olga" }, async (_page, window) => {
      await inTabs(window, calls, async (tab, { id, texts, address }) => {
        await waitUntil(`content of ${id}`, async () => (await gateway.get(`/calls/${id}`)).has_content);
        await tab.goto(`/console/calls/${id}?content=1`);
        const seen = await settledText(tab);
        for (const text of texts.map(displayed)) {
          for (const part of [`asks ${text}`, `calls ${text}`, `result of ${text}`, `found ${text}`]) {
            assert.ok(seen.includes(part), `${address}: no ${part} in ${seen.slice(0, 5000)}`);
          }
        }
      });
    });
  });

  it("no text of an agent, a model or a hook runs a script", async () => {
    const { browser } = suite;
    assert.equal(new Set(HOSTILE).size, 200);
    const gateway = await startHostileGateway();
    await withWindow(browser, gateway, { user: "olga" }, async (page, window) => {
      await page.goto("/console/calls?caller=team-a");
      await page.getByRole("button", { name: "Live" }).click();
      await page.getByRole("status").filter({ hasText: "live" }).waitFor();
      const calls = await sendHostileTexts(gateway);
      await page.locator("tr.new").nth(HOSTILE.length + calls.length - 1).waitFor();
      await checkRows(page);

      await inTabs(window, calls, async (tab, { id, texts }) => {
        await tab.goto(`/console/calls/${id}?content=1`);
        const seen = await settledText(tab);
        for (const text of texts.map(displayed)) {
          assert.ok(seen.includes(`Reason: ${text}`), `no reason ${text} in ${seen}`);
          assert.ok(seen.includes(`calls ${text}`), `no tool ${text} in ${seen}`);
        }
      });
      await inTabs(window, otherPages(calls), async (tab, address) => {
        const answer = await tab.goto(address);
        assert.equal(answer.status(), 200, address);
        await settledText(tab);
      });
      await window.context.clearCookies();
      const login = await page.goto("/console/login?next=/console/%22%3E%3Cscript%3Ewindow.__xss=1%3C/script%3E");
      assert.equal(login.status(), 200);
      await settledText(page);
    });
  });
}

async function startHostileGateway() {
  const [model, hook] = await Promise.all([startHostileModel(), startHostileHook()]);
  const guard = `hooks: { BeforeTool: [{ hooks: [{ type: http, name: guard, url: "${hook}", on_failure: closed }] }] }\n`;
  const start = (config) => config.slice(0, config.indexOf("policies:"));
  return Gateway.start(model, (config) => start(config).replace("reasons: true", "reasons: true, sample: 1.0") + guard);
}

/** Sends each text as prompt, tool, arguments, answer, reason, agent, session and path. */
async function sendHostileTexts(gateway) {
  const report = async (text) => {
    const event = { hook_event_name: "BeforeTool", session_id: text, tool_name: text, tool_input: { [text]: text } };
    const agent = Buffer.from(text.replaceAll("\0", "")).toString("latin1");
    const reported = await gateway.post("team-a", "/hookgate/v1/events?wait=1", event, { "user-agent": agent });
    assert.equal(reported.status, 200, reported.text);
    // Model names have few characters, so this one is refused.
    await gateway.call("ci", text, { model: encodeURIComponent(text) });
  };
  const calls = [];
  for (let start = 0; start < HOSTILE.length; start += TEXTS_PER_CALL) {
    const texts = HOSTILE.slice(start, start + TEXTS_PER_CALL);
    await Promise.all(texts.map(report));
    const contents = [{ role: "user", parts: texts.map((text) => ({ text })) }];
    const { status, id, text } = await gateway.call("team-a", "", { body: { contents } });
    assert.equal(status, 200, text);
    calls.push({ id, texts });
  }
  return calls;
}

/** Checks the rows that the live tail added. */
async function checkRows(page) {
  const rows = await page.locator("tr.new").evaluateAll((all) =>
    all.map((row) => [...row.cells].map((cell) => cell.textContent)),
  );
  const texts = HOSTILE.map(displayed);
  for (const [column, name] of [[3, "tool"], [5, "agent"], [6, "session"]]) {
    const seen = new Set(rows.map((cells) => cells[column]));
    const missing = texts.filter((text) => !seen.has(text) && !text.includes("\\u"));
    assert.deepEqual(missing, [], name);
  }
  assert.equal(await settledText(page).then((text) => /[\u0000\u202e\u200b]/.test(text)), false);
}

/** Waits until event handlers and reports have run. Returns the text of the page. */
const settledText = (page) =>
  page.evaluate(
    () => new Promise((resolve) => requestAnimationFrame(() => setTimeout(() => resolve(document.body.innerText)))),
  );

const otherPages = (calls) => [
  "/console/",
  "/console/calls",
  "/console/calls?q=%3Cscript%3Ewindow.__xss=1%3C/script%3E",
  "/console/denials",
  "/console/sessions",
  "/console/rules",
  "/console/coverage",
  ...calls
    .filter((_, index) => index % 3 === 0)
    .flatMap(({ id, texts }, index) => [
      `/console/sessions/${encodeURIComponent(texts[index % texts.length])}`,
      `/console/calls/${id}/test`,
      `/console/try?call=${id}`,
    ]),
];

/** Runs a step for each item, in some tabs of a window. */
async function inTabs(window, items, step) {
  const queue = items.values();
  const work = async () => {
    const tab = await window.context.newPage();
    for (const item of queue) await step(tab, item);
    await tab.close();
  };
  await Promise.all(Array.from({ length: TABS }, work));
}
