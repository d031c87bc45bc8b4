// Screenshots of all pages in both colour schemes, for the documentation.

import assert from "node:assert/strict";
import { mkdir, readFile, readdir, stat, writeFile } from "node:fs/promises";
import path from "node:path";
import { it } from "node:test";

import { waitUntil, withWindow } from "../harness/browser.mjs";
import { REPO } from "../harness/gateway.mjs";
import { pages } from "../fixture.mjs";

const FOLDER = path.join(REPO, "docs/console");
const SCHEMES = ["light", "dark"];
const SIZE = { width: 1280, height: 800 };
const MAX_BYTES = 1_500_000;

export function screenshotTests(suite) {
  it("docs/console.md has a small screenshot of every page in both schemes", async () => {
    const { fixture } = suite;
    const named = [...pages(fixture), ["login", "/console/login"]];
    if (process.env.UPDATE) await takeScreenshots(suite, named);
    const text = await readFile(path.join(REPO, "docs/console.md"), "utf8");
    let bytes = 0;
    const expected = named.flatMap(([name]) => SCHEMES.map((scheme) => `${name}-${scheme}.webp`));
    assert.deepEqual((await readdir(FOLDER)).sort(), expected.toSorted());
    for (const file of expected) {
      assert.ok(text.includes(`console/${file}`), `docs/console.md lacks ${file}`);
      bytes += (await stat(path.join(FOLDER, file))).size;
    }
    assert.ok(bytes < MAX_BYTES, `${bytes} bytes of screenshots`);
  });
}

async function takeScreenshots({ browser, fixture }, named) {
  await mkdir(FOLDER, { recursive: true });
  for (const colorScheme of SCHEMES) {
    const options = { user: "olga", colorScheme, viewport: SIZE };
    await withWindow(browser, fixture.gateway, options, async (page, window) => {
      const devtools = await window.context.newCDPSession(page);
      for (const [name, address] of named) {
        if (name === "login") await window.context.clearCookies();
        await page.goto(address);
        const format = { format: "webp", quality: 80 };
        // Fails before the first paint of the page.
        const capture = () => devtools.send("Page.captureScreenshot", format).catch(() => false);
        const { data } = await waitUntil(`a screenshot of ${address}`, capture);
        await writeFile(path.join(FOLDER, `${name}-${colorScheme}.webp`), Buffer.from(data, "base64"));
      }
    });
  }
}
