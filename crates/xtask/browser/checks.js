// Drives Chromium over the pages of `ralph serve` and fails at the first thing that is wrong.
// Usage: node checks.js CONFIG, where CONFIG is the JSON that `cargo xtask browser` writes.
"use strict";
const fs = require("fs");
const path = require("path");
const readline = require("readline");
const { spawn, execFileSync } = require("child_process");
const config = JSON.parse(fs.readFileSync(process.argv[2], "utf8"));
const { chromium } = require(path.join(config.tools, "node_modules/playwright-core"));
const axeSource = fs.readFileSync(path.join(config.tools, "node_modules/axe-core/axe.min.js"), "utf8");

const LOOKS = [
  ["light", { viewport: { width: 1280, height: 900 }, colorScheme: "light" }],
  ["dark", { viewport: { width: 1280, height: 900 }, colorScheme: "dark" }],
  ["phone", { viewport: { width: 390, height: 844 }, colorScheme: "light", hasTouch: true }],
];
const RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];
const faults = [];
const fail = (what) => { faults.push(what); console.error("FAULT " + what); };
const expect = (holds, what) => { if (!holds) fail(what); };
const environment = (home) => ({ PATH: process.env.PATH, HOME: home, RALPH_HOME: home, TZ: "UTC", USER: "ada" });
const ralph = (home, ...args) => execFileSync(config.ralph, args, { env: environment(home), cwd: home, encoding: "utf8" });
const journal = (home, run) => fs.readFileSync(path.join(home, "runs", run, "journal.jsonl"), "utf8");

/// A link opens one window. The server prints the next one when a browser has entered.
function serve(home) {
  return new Promise((resolve, reject) => {
    const child = spawn(config.ralph, ["serve", "--json", "--port", "0"], { env: environment(home), cwd: home });
    const links = [];
    const waiting = [];
    const nextLink = () => (links.length > 0 ? Promise.resolve(links.shift()) : new Promise((take) => waiting.push(take)));
    readline.createInterface({ input: child.stdout }).on("line", (line) => {
      const { url, link } = JSON.parse(line);
      const take = waiting.shift();
      if (take) take(link); else links.push(link);
      if (url) resolve({ child, url, nextLink });
    });
    child.on("exit", (code) => reject(new Error(`ralph serve ended with ${code}`)));
  });
}

/// A browser window that reports errors, dialogs, requests to other hosts and text that ran.
async function open(browser, server, look, options = {}) {
  const context = await browser.newContext({ ...look, reducedMotion: "reduce", ...options });
  const page = await context.newPage();
  const host = new URL(server.url).host;
  page.on("console", (m) => { if (m.type() === "error" || m.text().includes("Content Security Policy")) fail(`${page.url()}: console: ${m.text()}`); });
  page.on("pageerror", (e) => fail(`${page.url()}: ${e.message}`));
  page.on("dialog", (d) => { fail(`${page.url()}: a dialog`); d.dismiss(); });
  page.on("request", (r) => { if (new URL(r.url()).host !== host) fail(`a request to ${r.url()}`); });
  await page.goto(await server.nextLink());
  expect(!page.url().includes("token"), "the token stays in the address");
  return { context, page };
}

async function inspect(page, server, pathname, name) {
  const reply = await page.goto(new URL(pathname, server.url).href, { waitUntil: "load" });
  expect(reply.status() === 200, `${name} ${pathname}: status ${reply.status()}`);
  await page.evaluate(() => document.querySelectorAll("details").forEach((d) => { d.removeAttribute("name"); d.open = true; }));
  expect(!(await page.evaluate(() => window.pwned)), `${name} ${pathname}: hostile text ran`);
  const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  expect(over <= 0, `${name} ${pathname}: ${over} px wider than the screen`);
  await page.evaluate(axeSource);
  const result = await page.evaluate((rules) => axe.run(document, { runOnly: rules }), RULES);
  for (const v of result.violations) {
    if (v.impact === "serious" || v.impact === "critical" || v.impact === "moderate") {
      fail(`${name} ${pathname}: ${v.impact} ${v.id}: ${v.nodes.slice(0, 2).map((n) => n.target.join(" ") + " " + (n.any[0]?.message ?? "")).join(" | ")}`);
    }
  }
  return result.passes.length;
}

const PAGES = ["/", "/history", "/queues", "/stats", "/states"];
const runPages = (run) => [`/run/${run}`, `/run/${run}/stops`];

async function checkPages(browser, server, pages) {
  let passes = 0;
  for (const [name, look] of LOOKS) {
    const { context, page } = await open(browser, server, look);
    for (const pathname of pages) passes += await inspect(page, server, pathname, name);
    await context.close();
  }
  console.log(`${pages.length} pages in ${LOOKS.length} looks, ${passes} rules of axe pass`);
}

async function checkLive(browser, server, home) {
  const { context, page } = await open(browser, server, LOOKS[0][1]);
  await page.goto(server.url);
  await page.waitForSelector("#live[data-state=on]");
  const began = Date.now();
  ralph(home, "pause", "2ubr");
  const written = Date.now();
  await page.waitForSelector("#run-2ubr.st-paused", { timeout: 5000 });
  const took = Date.now() - written;
  console.log(`a change is on the page ${took} ms after the command ended (${written - began} ms)`);
  expect(took < 1000, `an update took ${took} ms`);
  ralph(home, "resume", "2ubr");
  await page.waitForSelector("#run-2ubr.st-working", { timeout: 5000 });
  // Text that a person types is never replaced.
  await page.goto(new URL("/run/2ubr", server.url).href);
  await page.waitForSelector("#live[data-state=on]");
  await page.click("#tool-tell summary");
  await page.fill("#tell", "half a sentence");
  ralph(home, "pause", "2ubr");
  await page.waitForSelector("#verdict .st-paused", { timeout: 5000 });
  expect((await page.inputValue("#tell")) === "half a sentence", "typed text was lost");
  ralph(home, "resume", "2ubr");
  await context.close();
}

async function checkKeys(browser, server) {
  const { context, page } = await open(browser, server, LOOKS[0][1]);
  await page.goto(server.url);
  const focused = () => page.evaluate(() => document.activeElement.id);
  await page.keyboard.press("j");
  expect((await focused()) === "open-k7f2", `j goes to ${await focused()}`);
  await page.keyboard.press("j");
  await page.keyboard.press("k");
  expect((await focused()) === "open-k7f2", "k does not go back");
  await page.keyboard.press("?");
  expect(await page.isVisible("#keys"), "? does not open the keys");
  await page.keyboard.press("Escape");
  expect(!(await page.isVisible("#keys")), "Escape does not close the keys");
  await page.focus("#open-k7f2");
  await Promise.all([page.waitForURL("**/run/k7f2"), page.keyboard.press("Enter")]);
  await page.keyboard.press("a");
  expect((await focused()) === "answer", `a goes to ${await focused()}`);
  await page.keyboard.type("bh?");
  expect(page.url().endsWith("/run/k7f2"), "keys work in a field");
  await page.evaluate(() => document.activeElement.blur());
  await Promise.all([page.waitForURL("**/history"), page.keyboard.press("h")]);
  await page.keyboard.press("/");
  expect((await focused()) === "q", "/ does not go to the filter");
  await context.close();
}

async function checkActions(browser, server, home) {
  const { context, page } = await open(browser, server, LOOKS[2][1]);
  await page.click("#run-k7f2 .btn.go");
  await page.fill("#answer", "Keep them <b>all</b>");
  await Promise.all([page.waitForURL("**/run/k7f2?done=*"), page.click("#question button")]);
  expect((await page.textContent("#notice")).includes("Sent"), "no notice after an answer");
  expect(journal(home, "k7f2").includes("Keep them <b>all</b>"), "the answer is not in the journal");
  expect(journal(home, "k7f2").includes('"by":"ada"'), "the journal does not name the person");
  await page.click("#tool-cancel summary");
  const button = page.getByRole("button", { name: "Cancel run k7f2" });
  await Promise.all([page.waitForURL("**/run/k7f2?done=*"), button.click()]);
  await page.waitForSelector("#verdict .st-cancelled");
  expect(journal(home, "k7f2").includes('"kind":"cancelled"') || journal(home, "k7f2").includes("cancelled"), "the cancellation is not in the journal");
  await context.close();
  // The same without script.
  const plain = await open(browser, server, LOOKS[0][1], { javaScriptEnabled: false });
  await plain.page.goto(new URL("/run/2ubr", server.url).href);
  await Promise.all([plain.page.waitForURL("**?done=*"), plain.page.click("#tools button >> nth=0")]);
  expect((await plain.page.textContent("#notice")).includes("Paused"), "pausing without script failed");
  await plain.context.close();
}

async function checkMany(browser, server, home) {
  const { context, page } = await open(browser, server, LOOKS[0][1]);
  const began = Date.now();
  await page.goto(server.url);
  console.log(`the board of ${config.many} runs took ${Date.now() - began} ms`);
  const rows = await page.locator(".run").count();
  expect(rows > 0 && rows <= 60, `the board of many runs has ${rows} rows`);
  await page.click("a.more");
  await page.waitForURL("**/history");
  expect((await page.textContent("h1")).includes(String(config.many - 1)), `the history says ${await page.textContent("h1")}`);
  const first = await page.locator(".run h3").first().textContent();
  await page.click("a.more");
  await page.waitForURL("**before=*");
  expect((await page.locator(".run h3").first().textContent()) !== first, "the next page is the same page");
  await page.goto(new URL("/history?q=number+17", server.url).href);
  expect((await page.locator(".run").count()) > 0, "the filter finds nothing");
  await page.goto(server.url);
  await page.waitForSelector("#live[data-state=on]");
  ralph(home, "pause", "r00000");
  const written = Date.now();
  await page.waitForSelector("#run-r00000.st-paused", { timeout: 10000 });
  console.log(`and a change of one is on the page after ${Date.now() - written} ms`);
  await context.close();
}

/// Checkpoints of a real repository side by side, and the stats over enough runs to compare.
async function checkCompared(browser, server) {
  const diff = `/run/${config.changed}/diff`;
  const file = "/run/" + config.changed + "/diff?from=0&to=1&path=" + encodeURIComponent('<b>&"quoted".txt');
  await checkPages(browser, server, ["/stats", `/run/${config.changed}`, diff, file]);
  const { context, page } = await open(browser, server, LOOKS[0][1]);
  await page.goto(new URL("/stats", server.url).href);
  expect((await page.textContent("h1")).startsWith("A verified run costs"), `the stats say ${await page.textContent("h1")}`);
  expect((await page.textContent("main")).includes("ralph stats --all --apply 1"), "the stats have no proposal");
  expect((await page.locator("main form, main button").count()) === 0, "the stats have a button");
  await page.goto(new URL(`/run/${config.changed}`, server.url).href);
  await page.locator(`a[href^="${diff}"]`).first().click();
  await page.waitForURL("**/diff*");
  expect((await page.locator(".diff .add").count()) > 0, "the comparison shows no added line");
  await context.close();
}

async function takePictures(browser, server) {
  for (const [name, look] of LOOKS) {
    const viewport = name === "phone" ? look.viewport : { width: 1080, height: 900 };
    const { context, page } = await open(browser, server, { ...look, viewport });
    await page.waitForSelector("#live[data-state=on]");
    await page.screenshot({ path: path.join(config.pictures, `board-${name}.png`) });
    await context.close();
  }
}

(async () => {
  const began = Date.now();
  const browser = await chromium.launch({ executablePath: config.chromium, args: ["--no-sandbox", "--disable-gpu", "--font-render-hinting=none"] });
  const servers = {};
  try {
    for (const [name, home] of Object.entries(config.homes)) servers[name] = await serve(home);
    if (config.pictures) {
      await takePictures(browser, servers.board);
    } else {
      const { empty, board, hostile, many, compared } = servers;
      await checkPages(browser, empty, PAGES);
      await checkPages(browser, hostile, [...PAGES, ...runPages("x9nn")]);
      await checkPages(browser, board, [...PAGES, ...runPages("k7f2"), "/run/9qd2", "/history?q=is%3Astuck"]);
      await checkCompared(browser, compared);
      await checkLive(browser, board, config.homes.board);
      await checkKeys(browser, board);
      await checkActions(browser, board, config.homes.board);
      await checkMany(browser, many, config.homes.many);
    }
  } catch (error) {
    fail(error.stack ?? String(error));
  }
  await browser.close();
  for (const server of Object.values(servers)) server.child.kill("SIGTERM");
  console.log(`${faults.length} faults in ${Math.round((Date.now() - began) / 1000)} s`);
  process.exit(faults.length === 0 ? 0 : 1);
})();
