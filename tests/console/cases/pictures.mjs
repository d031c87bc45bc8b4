// Pictures of all pages in both colour schemes, for the documentation.

import assert from "node:assert/strict";
import { mkdir, readFile, readdir, stat, writeFile } from "node:fs/promises";
import path from "node:path";
import { it } from "node:test";

import { until, withWindow } from "../harness/browser.mjs";
import { REPO } from "../harness/gateway.mjs";
import { pages } from "../scene.mjs";

const FOLDER = path.join(REPO, "docs/console");
const SCHEMES = ["light", "dark"];
const SIZE = { width: 1280, height: 800 };
const MAX_BYTES = 1_500_000;

export function pictureTests(stage) {
  it("docs/console.md shows a small picture of every page in both schemes", async () => {
    const { scene } = stage;
    const named = [...pages(scene), ["login", "/console/login"]];
    if (process.env.UPDATE) await takePictures(stage, named);
    const text = await readFile(path.join(REPO, "docs/console.md"), "utf8");
    let bytes = 0;
    const expected = named.flatMap(([name]) => SCHEMES.map((scheme) => `${name}-${scheme}.webp`));
    assert.deepEqual((await readdir(FOLDER)).sort(), expected.toSorted());
    for (const file of expected) {
      assert.ok(text.includes(`console/${file}`), `docs/console.md lacks ${file}`);
      bytes += (await stat(path.join(FOLDER, file))).size;
    }
    assert.ok(bytes < MAX_BYTES, `${bytes} bytes of pictures`);
  });
}

async function takePictures({ browser, scene }, named) {
  await mkdir(FOLDER, { recursive: true });
  for (const colorScheme of SCHEMES) {
    const options = { user: "olga", colorScheme, viewport: SIZE };
    await withWindow(browser, scene.gateway, options, async (page, window) => {
      const devtools = await window.context.newCDPSession(page);
      for (const [name, address] of named) {
        await page.goto(address);
        const format = { format: "webp", quality: 80 };
        // Fails while the page is not painted yet.
        const capture = () => devtools.send("Page.captureScreenshot", format).catch(() => false);
        const { data } = await until(`a picture of ${address}`, capture);
        await writeFile(path.join(FOLDER, `${name}-${colorScheme}.webp`), Buffer.from(data, "base64"));
      }
    });
  }
}
