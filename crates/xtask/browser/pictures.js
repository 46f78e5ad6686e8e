// Takes the pictures of the documentation, and describes what they show.
"use strict";
const crypto = require("crypto");
const path = require("path");
const { LOOKS, config, open, openWindow } = require("./window.js");
const { writeReport } = require("./reports.js");

const [[, light], [, dark], [, phone]] = LOOKS;
const wide = (look, height) => ({ ...look, viewport: { width: 1080, height } });
const PICTURES = [
  { file: "board-light.png", page: "/", look: wide(light, 900) },
  { file: "board-dark.png", page: "/", look: wide(dark, 900) },
  { file: "board-phone.png", page: "/", look: phone },
  { file: "run-page.png", page: `/run/${config.driven}`, look: wide(light, 1500) },
  { file: "stats-page.png", home: "compared", page: "/stats", look: wide(light, 900) },
  { file: "report-page.png", home: "detailed", report: config.proved, look: wide(light, 1300) },
];

/// The markup without what differs between two runs: secrets, times, and numbers that follow from them.
function maskMarkup(markup) {
  return markup
    .replace(/(name="token" value=")[^"]*/g, "$1TOKEN")
    .replace(/<time [^>]*>[^<]*<\/time>/g, "<time>TIME</time>")
    .replace(/(\d{4}-\d\d-\d\d )?\d\d:\d\d(:\d\d)?/g, "TIME")
    .replace(/[0-9a-f]{12,}/g, "HASH")
    .replace(/\bq[0-9a-f]{7}\b/g, "QUEUE")
    .replace(/\/(tmp|dev\/shm)\/[^\s<"]*/g, "PATH")
    .replace(/\d+(\.\d+)? (ms|s|min|h|days?)\b( \d+ (ms|s|min|h)\b)*/g, "DURATION")
    .replace(/\d+/g, "0");
}

function visibleText(masked) {
  const body = masked.slice(masked.indexOf("<body"));
  const texts = body.replace(/<svg[\s\S]*?<\/svg>/g, " ").replace(/<[^>]*>/g, "\n");
  return texts.split("\n").map((line) => line.trim()).filter((line) => line !== "");
}

const digest = (bytes) => crypto.createHash("sha256").update(bytes).digest("hex");

async function showPicture(browser, servers, picture) {
  const server = servers[picture.home ?? "board"];
  if (picture.report) {
    const address = writeReport(config.homes[picture.home], picture.report);
    const opened = await openWindow(browser, picture.look, (request) => request.url() === address);
    await opened.page.goto(address);
    return { ...opened, sources: [await opened.page.content()] };
  }
  const opened = await open(browser, server, picture.look);
  const get = async (pathname) => (await opened.context.request.get(new URL(pathname, server.url).href)).text();
  const sources = [await get(picture.page), await get("/style.css")];
  await opened.page.goto(new URL(picture.page, server.url).href);
  return { ...opened, sources };
}

/// Takes each picture if there is a directory for them. Returns what each shows: its text, and a digest of everything
/// that decides how it looks, except the fonts of the machine.
async function describePictures(browser, servers) {
  const described = {};
  for (const picture of PICTURES) {
    const { context, page, sources } = await showPicture(browser, servers, picture);
    const [markup, ...styles] = [maskMarkup(sources[0]), ...sources.slice(1)];
    const look = JSON.stringify(picture.look);
    described[picture.file] = { text: visibleText(markup), look: digest([markup, ...styles, look].join("\0")) };
    if (config.pictures) {
      if (!picture.report && (await page.locator("#live").count()) > 0) await page.waitForSelector("#live[data-state=on]");
      await page.screenshot({ path: path.join(config.pictures, picture.file) });
    }
    await context.close();
  }
  return described;
}

module.exports = { describePictures };
