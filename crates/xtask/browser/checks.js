// Drives Chromium over the pages of `ralph serve` and fails at the first thing that is wrong.
// Usage: node checks.js CONFIG, where CONFIG is the JSON that `cargo xtask browser` writes.
"use strict";
const fs = require("fs");
const http = require("http");
const path = require("path");
const { LOOKS, checkPages, config, expect, fail, faults, inspectPrinted, journal, open, openWindow, ralph, serve } = require("./window.js");
const { describePictures } = require("./pictures.js");
const { checkReports } = require("./reports.js");
const { chromium } = require(path.join(config.tools, "node_modules/playwright-core"));

const PAGES = ["/", "/history", "/queues", "/stats", "/states"];
const runPages = (run) => [`/run/${run}`, `/run/${run}/stops`, `/run/${run}/report`];
/// A page of a run that is printed with everything that it folds.
const MAX_PRINTED_RUN = 12;

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

/// Two questions shortly after each other are both announced, the second one ten seconds later.
async function checkNews(browser, server, home) {
  const { context, page } = await open(browser, server, LOOKS[0][1]);
  await page.clock.install();
  await page.goto(server.url);
  await page.waitForSelector("#live[data-state=on]");
  const news = () => page.textContent("#news");
  for (const run of ["2ubr", "dr4v"]) {
    ralph(home, "ask", "--run", run, `What next, ${run}?`);
    await page.waitForSelector(`#run-${run} .asked`, { timeout: 5000 });
  }
  expect((await news()).startsWith("Run 2ubr asks"), `first the news are: ${await news()}`);
  await page.clock.runFor(11_000);
  expect((await news()).startsWith("Run dr4v asks"), `ten seconds later the news are: ${await news()}`);
  await context.close();
}

/// Gates that run now are on the board and first among the gates of their run.
async function checkRunningGates(browser, server) {
  const { context, page } = await open(browser, server, LOOKS[0][1]);
  for (const [pathname, place] of [["/", "#run-dr4v .pace"], ["/run/dr4v", "#gates .head + .pace"]]) {
    await page.goto(new URL(pathname, server.url).href);
    const shown = (await page.textContent(place)).trim();
    expect(/tests running for \d+ (s|min \d+ s|min), usually 38 s$/.test(shown), `${pathname} shows of the running gate: ${shown}`);
  }
  await context.close();
}

/// The report opens from the board and from the page of its run.
async function checkReportLinks(browser, server) {
  const { context, page } = await open(browser, server, LOOKS[0][1]);
  for (const [pathname, link] of [["/", "#run-9qd2 .where a"], ["/run/9qd2", "#verdict .status a"]]) {
    await page.goto(new URL(pathname, server.url).href);
    await Promise.all([page.waitForURL("**/run/9qd2/report"), page.click(link)]);
    expect((await page.textContent("h1")).includes("Stream the CSV export"), "the report has no title");
    expect(await page.evaluate(() => document.styleSheets[0].cssRules.length > 10), "no style applies to the report");
  }
  await context.close();
}

/// If markup got past the templates, the headers of each page would stop it: no script runs, nothing is loaded or sent.
async function checkHeaders(browser, server) {
  let requests = 0;
  const other = http.createServer((_, answer) => { requests += 1; answer.end("window.pwned = 1"); });
  await new Promise((done) => other.listen(0, "127.0.0.1", done));
  const away = `http://127.0.0.1:${other.address().port}/`;
  const markup = `<script>window.pwned = 1</script><img src="x" onerror="window.pwned = 1"><img src="${away}"><script src="${away}"></script>
    <iframe src="${away}"></iframe><link rel="stylesheet" href="${away}"><base href="${away}"><style>#slipped { color: rgb(1, 2, 3) }</style>
    <p id="slipped" style="color: rgb(1, 2, 3)">x</p><form action="${away}" method="post"><button id="send">x</button></form>`;
  // Every blocked part is an error in the console, so this window does not report those.
  const { context, page } = await openWindow(browser, LOOKS[0][1], () => true);
  page.removeAllListeners("console");
  await page.goto(await server.nextLink());
  for (const pathname of ["/", "/stats", "/run/9qd2", "/run/9qd2/report"]) {
    const address = new URL(pathname, server.url).href;
    await page.route(address, async (route) => {
      const response = await route.fetch();
      await route.fulfill({ response, body: (await response.text()).replace("</body>", `${markup}</body>`) });
    });
    await page.goto(address);
    const shown = await page.evaluate(() => ({ color: getComputedStyle(document.getElementById("slipped")).color, base: document.baseURI }));
    expect(shown.color !== "rgb(1, 2, 3)" && shown.base === address, `${pathname}: inserted markup changes ${JSON.stringify(shown)}`);
    await page.evaluate(() => { try { document.getElementById("slipped").innerHTML = '<img src="x" onerror="window.pwned = 1">'; } catch { /* Trusted types refuse it. */ } });
    await page.evaluate(() => document.getElementById("send").click());
    await page.waitForTimeout(200);
    expect(page.url() === address, `${pathname}: an inserted form leads to ${page.url()}`);
    expect(!(await page.evaluate(() => window.pwned)), `${pathname}: an inserted script ran`);
    expect(requests === 0, `${pathname}: inserted markup made ${requests} requests`);
  }
  await context.close();
  other.close();
}

/// The page of a run fits on paper.
async function checkPrinted(browser, server, runs) {
  const { context, page } = await open(browser, server, LOOKS[0][1]);
  for (const run of runs) {
    await page.goto(new URL(`/run/${run}`, server.url).href);
    await inspectPrinted(page, `page of ${run}`, MAX_PRINTED_RUN);
  }
  await context.close();
}

/// A page says when it stops trying to be live, and what to do: a server that is started again knows no session.
async function checkRestart(browser, server, home) {
  const { context, page } = await open(browser, server, LOOKS[0][1]);
  await page.goto(server.url);
  await page.waitForSelector("#live[data-state=on]");
  // The browser reports every lost connection.
  page.removeAllListeners("console");
  const ended = new Promise((done) => server.child.on("exit", done));
  server.child.kill("SIGTERM");
  await ended;
  await page.waitForSelector("#live[data-state=lost]", { timeout: 10000 });
  expect((await page.textContent("#live span")) === "Not live, trying again", "a lost connection is not tried again");
  const again = await serve(home, new URL(server.url).port);
  await page.waitForSelector("#live[data-state=ended]", { timeout: 20000 });
  expect((await page.textContent("#live span")).startsWith("No longer live: reload"), `it says ${await page.textContent("#live span")}`);
  await page.goto(await again.nextLink());
  await page.waitForSelector("#live[data-state=on]");
  await context.close();
  return again;
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
  for (const [pathname, row] of [["/", "#run-r00000.st-paused"], ["/run/r00000", "#verdict .st-paused"]]) {
    await page.goto(new URL(pathname, server.url).href);
    await page.waitForSelector("#live[data-state=on]");
    ralph(home, "pause", "r00000");
    const written = Date.now();
    await page.waitForSelector(row, { timeout: 10000 });
    const took = Date.now() - written;
    console.log(`and a change of one is on ${pathname} after ${took} ms`);
    expect(took < 1000, `an update of ${pathname} took ${took} ms with ${config.many} runs`);
    ralph(home, "resume", "r00000");
  }
  await context.close();
  await checkPages(browser, server, [...PAGES, ...runPages("r00000")], LOOKS.slice(0, 1));
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
  expect((await page.locator("main form[method=post]").count()) === 0, "the stats have an action");
  await page.goto(new URL(`/run/${config.changed}`, server.url).href);
  await page.locator(`a[href^="${diff}"]`).first().click();
  await page.waitForURL("**/diff*");
  expect((await page.locator(".diff .add").count()) > 0, "the comparison shows no added line");
  await context.close();
}

(async () => {
  const began = Date.now();
  const browser = await chromium.launch({ executablePath: config.chromium, args: ["--no-sandbox", "--disable-gpu", "--font-render-hinting=none"] });
  const servers = {};
  try {
    for (const [name, home] of Object.entries(config.homes)) servers[name] = await serve(home);
    if (config.described) {
      fs.writeFileSync(config.described, JSON.stringify(await describePictures(browser, servers)));
    } else {
      const { empty, one, board, hostile, many, compared, detailed } = servers;
      await checkPages(browser, empty, PAGES);
      await checkPages(browser, one, [...PAGES, ...runPages("r00000")]);
      const runs = config.detailed.flatMap(runPages);
      await checkPages(browser, hostile, [...PAGES, ...runPages("x9nn"), ...runs]);
      await checkPages(browser, board, [...PAGES, ...runPages("k7f2"), "/run/9qd2", "/history?q=is%3Astuck"]);
      await checkPages(browser, detailed, [...PAGES, ...runs]);
      await checkReports(browser, [...config.detailed.map((run) => ["detailed", run]), ["hostile", config.driven], ["hostile", config.proved], ["compared", config.changed]]);
      await checkCompared(browser, compared);
      await checkRunningGates(browser, board);
      await checkReportLinks(browser, board);
      await checkHeaders(browser, board);
      await checkPrinted(browser, detailed, config.detailed);
      await checkPrinted(browser, hostile, [config.driven]);
      servers.one = await checkRestart(browser, one, config.homes.one);
      await checkLive(browser, board, config.homes.board);
      await checkKeys(browser, board);
      await checkNews(browser, board, config.homes.board);
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
