// The live part of every page. Without it, everything still reads; with it, nothing needs a reload.
// The server sends rendered HTML fragments, each with the id of the element that it replaces.
"use strict";
(() => {
  const live = document.getElementById("live");
  const policy = window.trustedTypes
    ? trustedTypes.createPolicy("ralph", { createHTML: (s) => s })
    : { createHTML: (s) => s };

  const FIELDS = "textarea, input, select";
  // A region that a person is using is never replaced under their hands.
  const inUse = (el) =>
    (el.contains(document.activeElement) && document.activeElement.matches(FIELDS)) ||
    [...el.querySelectorAll("[data-keep] textarea, [data-keep] input[type=text]")].some((t) => t.value !== "");

  function patch(html) {
    const box = document.createElement("template");
    box.innerHTML = policy.createHTML(html);
    for (const next of [...box.content.children]) {
      const old = next.id && document.getElementById(next.id);
      if (!old) continue;
      for (const open of old.querySelectorAll("details[open][id]")) {
        const same = next.querySelector("#" + CSS.escape(open.id));
        if (same) same.open = true;
      }
      const plain = old.cloneNode(true);
      plain.classList.remove("patched");
      delete plain.dataset.stale;
      if (plain.className === "") plain.removeAttribute("class");
      if (next.isEqualNode(plain)) continue;
      if (inUse(old)) { old.dataset.stale = ""; continue; }
      const focused = old.contains(document.activeElement) ? document.activeElement.id : "";
      next.classList.add("patched");
      old.replaceWith(next);
      if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
    }
  }

  function say(state, text) {
    if (!live || live.dataset.state === state) return;
    live.dataset.state = state;
    live.querySelector("span").textContent = text;
  }

  const NEWS_GAP = 10000;
  const MAX_NEWS = 5;
  const news = [];
  // At most one sentence in ten seconds, so that a screen reader is not flooded. Others wait for their turn.
  function announce(text) {
    if (news.length >= MAX_NEWS) news.splice(1, 1);
    if (news.push(text) === 1) sayNews();
  }
  function sayNews() {
    document.getElementById("news").textContent = news[0];
    setTimeout(() => { news.shift(); if (news.length > 0) sayNews(); }, NEWS_GAP);
  }

  const source = document.body.dataset.events;
  if (live && source) {
    let events = null;
    const open = () => {
      if (events) return;
      events = new EventSource(source);
      events.addEventListener("patch", (e) => patch(e.data));
      events.addEventListener("news", (e) => announce(e.data));
      events.addEventListener("title", (e) => { document.title = e.data; });
      events.onopen = () => say("on", "Live");
      // A browser tries again after a lost connection, but never after a refusal.
      events.onerror = (e) => (e.target.readyState === EventSource.CLOSED
        ? say("ended", "No longer live: reload the page, or open the newest link of ralph serve")
        : say("lost", "Not live, trying again"));
    };
    const close = () => { events?.close(); events = null; };
    // A browser has six connections to a server, so tabs in the background give theirs back.
    document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
    window.addEventListener("pagehide", close);
    window.addEventListener("pageshow", () => { if (!document.hidden) open(); });
    if (!document.hidden) open();
  }

  // Keys. Single letters only outside of fields, so that screen readers and typing are left alone.
  const rows = () => [...document.querySelectorAll(".run h3 a, .stops > li[id] summary")];
  const dialog = document.getElementById("keys");
  const go = { b: "/", h: "/history", q: "/queues", s: "/stats" };
  const letters = document.getElementById("letters");
  if (letters) {
    letters.checked = localStorage.getItem("letters") !== "off";
    letters.addEventListener("change", () => localStorage.setItem("letters", letters.checked ? "on" : "off"));
  }
  document.addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey || e.target.matches(FIELDS)) return;
    if (e.key !== "?" && letters && !letters.checked) return;
    if (dialog?.open) return;
    if (e.key === "?") { dialog?.showModal(); return; }
    if (e.key === "/") { const f = document.querySelector("input[type=search]"); if (f) { e.preventDefault(); f.focus(); } return; }
    if (e.key === "a") { const a = document.getElementById("answer"); if (a) { e.preventDefault(); a.focus(); } return; }
    if (e.key === "j" || e.key === "k") {
      const all = rows();
      const at = all.indexOf(document.activeElement);
      const to = e.key === "j" ? Math.min(at + 1, all.length - 1) : Math.max(at - 1, 0);
      all[to]?.focus();
      return;
    }
    if (go[e.key]) location.href = go[e.key];
  });
})();
