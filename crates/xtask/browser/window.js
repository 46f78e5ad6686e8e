// Starts `ralph serve`, opens windows that report what is wrong, and inspects pages.
"use strict";
const fs = require("fs");
const path = require("path");
const readline = require("readline");
const { spawn, execFileSync } = require("child_process");
const config = JSON.parse(fs.readFileSync(process.argv[2], "utf8"));
const axeSource = fs.readFileSync(path.join(config.tools, "node_modules/axe-core/axe.min.js"), "utf8");

const LOOKS = [
  ["light", { viewport: { width: 1280, height: 900 }, colorScheme: "light" }],
  ["dark", { viewport: { width: 1280, height: 900 }, colorScheme: "dark" }],
  ["phone", { viewport: { width: 390, height: 844 }, colorScheme: "light", hasTouch: true }],
];
const RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];
/// What is left of A4 beside the margins, in pixels.
const PAPER_WIDTH = 665;
const faults = [];
const fail = (what) => { faults.push(what); console.error("FAULT " + what); };
const expect = (holds, what) => { if (!holds) fail(what); };
const environment = (home) => ({ PATH: process.env.PATH, HOME: home, RALPH_HOME: home, TZ: "UTC", USER: "ada" });
const ralph = (home, ...args) => execFileSync(config.ralph, args, { env: environment(home), cwd: home, encoding: "utf8" });
const journal = (home, run) => fs.readFileSync(path.join(home, "runs", run, "journal.jsonl"), "utf8");

/// A link opens one window. The server prints the next one when a browser has entered.
function serve(home, port = "0") {
  return new Promise((resolve, reject) => {
    const child = spawn(config.ralph, ["serve", "--json", "--port", port], { env: environment(home), cwd: home });
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

/// A window that reports errors, dialogs, text that ran, and requests that are not allowed.
async function openWindow(browser, look, mayRequest) {
  const context = await browser.newContext({ reducedMotion: "reduce", ...look });
  const page = await context.newPage();
  page.on("console", (m) => { if (m.type() === "error" || m.text().includes("Content Security Policy")) fail(`${page.url()}: console: ${m.text()}`); });
  page.on("pageerror", (e) => fail(`${page.url()}: ${e.message}`));
  page.on("dialog", (d) => { fail(`${page.url()}: a dialog`); d.dismiss(); });
  page.on("request", (r) => { if (!mayRequest(r)) fail(`a request to ${r.url()}`); });
  return { context, page };
}

/// A window of a server, in a session of its own.
async function open(browser, server, look, options = {}) {
  const host = new URL(server.url).host;
  const opened = await openWindow(browser, { ...look, ...options }, (r) => new URL(r.url()).host === host);
  await opened.page.goto(await server.nextLink());
  expect(!opened.page.url().includes("token"), "the token stays in the address");
  return opened;
}

/// What is wrong with the page that is shown: text that ran, a page that is too wide, and the rules of axe.
async function inspectShown(page, what) {
  await page.evaluate(() => document.querySelectorAll("details").forEach((d) => { d.removeAttribute("name"); d.open = true; }));
  expect(!(await page.evaluate(() => window.pwned)), `${what}: hostile text ran`);
  const { over, widest } = await page.evaluate(() => {
    const ends = [...document.querySelectorAll("body *")].map((e) => [e.getBoundingClientRect().right, e]);
    const last = ends.sort(([one], [other]) => one - other).at(-1)?.[1];
    return { over: document.documentElement.scrollWidth - innerWidth, widest: last?.outerHTML.slice(0, 160) };
  });
  expect(over <= 0, `${what}: ${over} px wider than the screen, because of ${widest}`);
  await inspectHeads(page, what);
  await page.evaluate(axeSource);
  const result = await page.evaluate((rules) => axe.run(document, { runOnly: rules }), RULES);
  for (const v of result.violations) {
    if (v.impact === "serious" || v.impact === "critical" || v.impact === "moderate") {
      fail(`${what}: ${v.impact} ${v.id}: ${v.nodes.slice(0, 2).map((n) => n.target.join(" ") + " " + (n.any[0]?.message ?? "")).join(" | ")}`);
    }
  }
  return result.passes.length;
}

/// What is wrong with the page on paper: no page or too many, and what does not fit beside the margins of A4.
async function inspectPrinted(page, what, maxPages) {
  const pdf = (await page.pdf({ format: "A4", margin: { left: "17mm", right: "17mm", top: "14mm", bottom: "16mm" } })).toString("latin1");
  const count = (pdf.match(/\/Type\s*\/Page\b/g) ?? []).length;
  expect(count >= 1 && count <= maxPages, `${what}: it prints ${count} pages`);
  const size = page.viewportSize();
  await page.emulateMedia({ media: "print" });
  await page.setViewportSize({ width: PAPER_WIDTH, height: 990 });
  const wide = await page.evaluate(() => {
    // A clip is for screen readers only, and a picture scales what is in it.
    const shown = [...document.querySelectorAll("body *")].filter((e) => !e.closest(".sr, svg *") && e.getClientRects().length > 0);
    const isWide = (e) => e.getBoundingClientRect().right > innerWidth + 0.5 || (getComputedStyle(e).overflowX !== "visible" && e.scrollWidth > e.clientWidth + 1);
    return shown.filter(isWide).slice(0, 3).map((e) => e.outerHTML.slice(0, 160));
  });
  expect(wide.length === 0, `${what}: too wide on paper: ${wide.join(" | ")}`);
  await inspectHeads(page, `${what} on paper`);
  await page.emulateMedia({ media: null });
  await page.setViewportSize(size);
}

/// A word in the head of a table is on one line.
async function inspectHeads(page, what) {
  const broken = await page.evaluate(() => {
    const words = [];
    for (const head of document.querySelectorAll("thead th")) {
      const texts = document.createTreeWalker(head, NodeFilter.SHOW_TEXT);
      while (texts.nextNode()) {
        for (const word of texts.currentNode.data.matchAll(/\S+/g)) {
          const range = document.createRange();
          range.setStart(texts.currentNode, word.index);
          range.setEnd(texts.currentNode, word.index + word[0].length);
          if (new Set([...range.getClientRects()].map((box) => Math.round(box.top))).size > 1) words.push(word[0]);
        }
      }
    }
    return words;
  });
  expect(broken.length === 0, `${what}: heads of tables break inside of ${broken.join(", ")}`);
}

async function inspect(page, server, pathname, name) {
  const reply = await page.goto(new URL(pathname, server.url).href, { waitUntil: "load" });
  expect(reply.status() === 200, `${name} ${pathname}: status ${reply.status()}`);
  return inspectShown(page, `${name} ${pathname}`);
}

async function checkPages(browser, server, pages, looks = LOOKS) {
  let passes = 0;
  for (const [name, look] of looks) {
    const { context, page } = await open(browser, server, look);
    for (const pathname of pages) passes += await inspect(page, server, pathname, name);
    await context.close();
  }
  console.log(`${pages.length} pages in ${looks.length} looks, ${passes} rules of axe pass`);
}

module.exports = { LOOKS, checkPages, config, expect, fail, faults, inspectPrinted, inspectShown, journal, open, openWindow, ralph, serve };
