// WCAG rules, keyboard navigation, pages without scripts, and 400 % zoom.

import assert from "node:assert/strict";
import { describe, it } from "node:test";

import { AXE, withWindow } from "../harness/browser.mjs";
import { pages } from "../fixture.mjs";

const TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];

export function accessibilityTests(suite) {
  // Both at once, because each waits for a process of the browser.
  describe("accessibility rules", { concurrency: true }, () => {
    for (const colorScheme of ["light", "dark"]) {
      it(`no page violates a rule of WCAG 2.2 AA in the ${colorScheme} scheme`, async () => {
        const { browser, fixture } = suite;
        const found = [];
        await withWindow(browser, fixture.gateway, { user: "olga", colorScheme }, async (page, window) => {
          const devtools = await window.context.newCDPSession(page);
          for (const [name, address] of [...pages(fixture), ["unknown", "/console/calls/unknown"]]) {
            await page.goto(address);
            await openDetails(page);
            found.push(...(await violations(devtools, name)));
          }
          for (const [name, open] of Object.entries(RESULTS)) {
            await open(page);
            await openDetails(page);
            found.push(...(await violations(devtools, name)));
          }
          await window.context.clearCookies();
          await page.goto("/console/login");
          found.push(...(await violations(devtools, "login")));
          await page.getByLabel("Admin token").fill("wrong");
          await page.getByRole("button", { name: "Log in" }).click();
          await page.getByRole("alert").waitFor();
          found.push(...(await violations(devtools, "login with an error")));
        });
        assert.deepEqual(found, []);
      });
    }
  });

  it("every list is usable by keyboard only", async () => {
    const { browser, fixture: { gateway } } = suite;
    await withWindow(browser, gateway, { user: "vera" }, async (page) => {
      const focused = (property) => page.evaluate((name) => document.activeElement[name], property);
      const { keyboard } = page;
      await page.goto("/console/");
      await keyboard.press("Tab");
      assert.equal(await focused("textContent"), "Skip to content");
      await keyboard.press("Enter");
      assert.equal(await focused("id"), "content");

      await page.goto("/console/calls");
      const rows = await page.locator("a[data-row]").evaluateAll((all) => all.map((row) => row.href));
      for (const [key, row] of [["j", 0], ["j", 1], ["j", 2], ["k", 1]]) {
        await keyboard.press(key);
        assert.equal(await focused("href"), rows[row], key);
      }
      await keyboard.press("Enter");
      await page.waitForURL(rows[1]);
      await keyboard.press("Escape");
      await page.waitForURL(/\/console\/calls\??$/);

      await keyboard.press("/");
      assert.equal(await focused("name"), "q");
      await keyboard.type("verdict:deny caller:ci");
      await keyboard.press("Enter");
      await page.waitForURL(/q=verdict/);
      await page.locator("a[data-row]").first().waitFor();
      await keyboard.press("/");
      await keyboard.type("jk");
      assert.equal(await focused("value"), "jk", "letters in a field are no shortcuts");
      await keyboard.press("Escape");
      assert.equal(await focused("tagName"), "BODY");
      assert.equal(await page.getByLabel("Filter").inputValue(), "jk", "Esc leaves the text of a field");
      await keyboard.press("j");
      await keyboard.press("Enter");
      await page.waitForURL(/\/console\/calls\/[-0-9a-f]+\?verdict=deny&caller=ci/);
      await keyboard.press("Escape");
      await page.waitForURL(/\/console\/calls\?verdict=deny&caller=ci/);

      await keyboard.press("?");
      const help = page.getByRole("dialog", { name: "Keys" });
      await help.waitFor();
      assert.match(await help.innerText(), /next row/);
      await keyboard.press("Escape");
      await help.waitFor({ state: "hidden" });
    });
  });

  it("keys of one character can be switched off, also for other pages, and on again", async () => {
    const { browser, fixture: { gateway } } = suite;
    await withWindow(browser, gateway, { user: "vera" }, async (page) => {
      const { keyboard } = page;
      const help = page.getByRole("dialog", { name: "Keys" });
      const toggle = async () => {
        await page.getByRole("button", { name: "Keys" }).click();
        await help.getByRole("checkbox", { name: "Use the keys" }).click();
        await keyboard.press("Escape");
        await help.waitFor({ state: "hidden" });
      };
      const reacts = async () => {
        for (const key of ["j", "k", "/", "j", "?"]) await keyboard.press(key);
        const hasFocus = () => document.activeElement.matches("a[data-row], input");
        return (await help.isVisible()) || (await page.evaluate(hasFocus));
      };

      await page.goto("/console/calls");
      await toggle();
      assert.equal(await reacts(), false, "after they are switched off");
      await page.goto("/console/sessions");
      assert.equal(await reacts(), false, "on another page");
      await toggle();
      await keyboard.press("j");
      await page.locator("a[data-row]:focus").waitFor();
    });
  });

  it("the focused element is visible, and the focus follows the page order", async () => {
    const { browser, fixture } = suite;
    await withWindow(browser, fixture.gateway, { user: "olga" }, async (page) => {
      for (const address of ["/console/", "/console/calls", "/console/denials", "/console/config", "/console/changes", "/console/fleet", "/console/try"]) {
        await page.goto(address);
        const order = [];
        for (let press = 0; press < 30; press += 1) {
          await page.keyboard.press("Tab");
          const stop = await page.evaluate(() => {
            const element = document.activeElement;
            const elements = [...document.querySelectorAll("*")];
            const { outlineStyle, outlineWidth } = getComputedStyle(element);
            const isSkip = element.matches(".skip");
            const box = element.getBoundingClientRect();
            return {
              position: elements.indexOf(element),
              isVisible: isSkip || (outlineStyle !== "none" && outlineWidth !== "0px" && box.width > 0),
              name: element.outerHTML.slice(0, 80),
            };
          });
          if (stop.name.startsWith("<body")) break;
          assert.ok(stop.isVisible, `${address}: ${stop.name}`);
          order.push(stop.position);
        }
        assert.ok(order.length > 8, `${address}: ${order}`);
        assert.deepEqual(order, order.toSorted((one, other) => one - other), address);
      }
    });
  });

  it("every page works without scripts", async () => {
    const { browser, fixture } = suite;
    const { gateway } = fixture;
    await withWindow(browser, gateway, { javaScriptEnabled: false }, async (page) => {
      await page.goto("/console/");
      await page.getByLabel("Admin token").fill("olga-token");
      await page.getByRole("button", { name: "Log in" }).click();
      await page.waitForURL("**/console/");
      for (const [name, address] of pages(fixture)) {
        const response = await page.goto(address);
        assert.equal(response.status(), 200, name);
        assert.ok((await page.locator("main").innerText()).length > 100, name);
      }
      await page.getByRole("link", { name: "Calls", exact: true }).click();
      assert.equal(await page.getByRole("button", { name: "Live" }).count(), 0, "the live tail needs scripts");
      await page.getByLabel("Filter").fill("verdict:deny caller:nightly");
      await page.getByRole("button", { name: "Filter" }).click();
      await page.locator("a[data-row]").first().click();
      await page.getByRole("link", { name: "All calls" }).click();
      await page.waitForURL(/verdict=deny/);
      await page.getByRole("link", { name: "Try it" }).click();
      await page.getByLabel("Run them").check();
      await page.getByRole("button", { name: "Try it" }).click();
      assert.match(await page.locator("main").innerText(), /Verdict: deny[^]*safe-shell[^]*Nothing is removed by force/);
      await page.getByRole("button", { name: "Log out" }).click();
      await page.waitForURL("**/console/login");
    });
  });

  it("long work shows that it is in progress, and for how long", async () => {
    const { browser, fixture } = suite;
    await withWindow(browser, fixture.gateway, { user: "olga" }, async (page) => {
      await page.goto("/console/try");
      assert.match(await page.locator("main").innerText(), /at most \d+ s for each event/);
      // While a page loads, nothing can be read from it. The answer is not what this is about.
      await page.evaluate(() => addEventListener("submit", (event) => event.preventDefault()));
      await page.getByRole("button", { name: "Try it" }).click();
      await page.getByRole("progressbar", { name: "in progress" }).waitFor();
      await page.getByText("1 s", { exact: true }).waitFor();
      assert.ok(await page.getByRole("button", { name: "Try it …" }).isDisabled());
    });
  });

  it("at 400 % zoom no page is wider than the window, only tables scroll", async () => {
    const { browser, fixture } = suite;
    const viewport = { width: 320, height: 256 };
    await withWindow(browser, fixture.gateway, { user: "olga", viewport, deviceScaleFactor: 4 }, async (page, window) => {
      for (const [name, address] of [...pages(fixture), ["login", "/console/login"]]) {
        if (name === "login") await window.context.clearCookies();
        await page.goto(address);
        await openDetails(page);
        const wide = await page.evaluate(() => {
          const { scrollWidth, clientWidth } = document.documentElement;
          const all = [...document.querySelectorAll("main *, header *")];
          const outside = all.filter((element) => {
            const box = element.getBoundingClientRect();
            return box.right > clientWidth + 1 && box.left >= 0 && !element.closest(".scroll, dialog");
          });
          return { scrollWidth, clientWidth, outside: outside.map((element) => element.outerHTML.slice(0, 100)) };
        });
        assert.deepEqual(wide, { scrollWidth: 320, clientWidth: 320, outside: [] }, name);
      }
    });
  });

  it("the overview fits into common windows", async () => {
    const { browser, fixture } = suite;
    for (const width of [768, 1024, 1200, 1280, 1366, 1440]) {
      await withWindow(browser, fixture.gateway, { user: "vera", viewport: { width, height: 800 } }, async (page) => {
        await page.goto("/console/");
        const hidden = await page.evaluate(() => {
          const { scrollWidth, clientWidth } = document.documentElement;
          return scrollWidth - clientWidth;
        });
        assert.equal(hidden, 0, `${width} pixels`);
      });
    }
  });

  it("the list of calls fits into 1280 pixels, also with long names", async () => {
    const { browser, fixture } = suite;
    await withWindow(browser, fixture.gateway, { user: "vera", viewport: { width: 1280, height: 720 } }, async (page) => {
      await page.goto("/console/calls");
      const hidden = await page.evaluate(() => {
        // From "Decided by" to "Model".
        const names = document.querySelectorAll("table.calls td:nth-child(n + 3):nth-child(-n + 8)");
        for (const cell of names) cell.textContent = "a-name-that-is-too-long-for-its-cell";
        const region = document.querySelector("table.calls").parentElement;
        return region.scrollWidth - region.clientWidth;
      });
      assert.equal(hidden, 0);
    });
  });
}

// Pages behind a form or a link, by their names.
const RESULTS = {
  "result of a trial": async (page) => {
    await page.goto("/console/try");
    await page.getByLabel("Run them").check();
    await page.getByRole("button", { name: "Try it" }).click();
    await page.getByRole("heading", { name: "Verdict: deny" }).waitFor();
  },
  "difference of a kept revision": async (page) => {
    await page.goto("/console/changes");
    await page.getByRole("link", { name: /^Compare / }).first().click();
    await page.locator("#difference").waitFor();
  },
};

const openDetails = (page) =>
  page.evaluate(() => document.querySelectorAll("details").forEach((details) => details.setAttribute("open", "")));

/** Runs axe-core in the page, beside its content security policy. */
export async function violations(devtools, name) {
  await devtools.send("Runtime.evaluate", { expression: AXE });
  const options = { runOnly: TAGS, resultTypes: ["violations"] };
  const { result, exceptionDetails } = await devtools.send("Runtime.evaluate", {
    expression: `axe.run(document, ${JSON.stringify(options)}).then((result) => ({
      rules: result.violations.map(({ id, nodes }) => ({ id, at: nodes.slice(0, 3).map((node) => node.html.slice(0, 200)) })),
      passes: result.passes.length,
    }))`,
    awaitPromise: true,
    returnByValue: true,
  });
  assert.equal(exceptionDetails, undefined);
  assert.ok(result.value.passes > 8, `${name}: ${result.value.passes} rules`);
  return result.value.rules.map((rule) => ({ page: name, ...rule }));
}
