// Opens reports as files, as a person does who was sent one.
"use strict";
const fs = require("fs");
const path = require("path");
const { pathToFileURL } = require("url");
const { LOOKS, config, expect, inspectPrinted, inspectShown, openWindow, ralph } = require("./window.js");

/// Pages of a report that a person reads on paper.
const MAX_PRINTED = 3;

/// Writes the report of a run, and returns its address.
function writeReport(home, run) {
  const file = path.join(home, `report-${run}.html`);
  fs.writeFileSync(file, ralph(home, "report", run, "--format", "html"));
  return pathToFileURL(file).href;
}

/// The report is one file that loads nothing, can be read by everyone, and prints.
async function checkReports(browser, reports) {
  let passes = 0;
  for (const [home, run] of reports) {
    const address = writeReport(config.homes[home], run);
    for (const [name, look] of LOOKS) {
      const { context, page } = await openWindow(browser, look, (request) => request.url() === address);
      await page.goto(address);
      const what = `report of ${run} in ${name}`;
      const policy = await page.getAttribute('meta[http-equiv="Content-Security-Policy"]', "content");
      expect(/^default-src 'none'; style-src 'sha256-[^']+'; /.test(policy), `${what}: the policy is ${policy}`);
      // A style that the policy does not name would not apply.
      expect(await page.evaluate(() => document.styleSheets[0].cssRules.length > 10), `${what}: no style applies`);
      expect((await page.locator("script, link, img, iframe").count()) === 0, `${what}: it has something to load`);
      passes += await inspectShown(page, what);
      if (name === "light") {
        await inspectPrinted(page, what, home === "hostile" ? Infinity : MAX_PRINTED);
      }
      await context.close();
    }
  }
  console.log(`${reports.length} reports as files in ${LOOKS.length} looks, ${passes} rules of axe pass`);
}

module.exports = { checkReports, writeReport };
