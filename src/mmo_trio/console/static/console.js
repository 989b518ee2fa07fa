// What pages have beyond their text: shortcuts, copying, local times, and pages that stay up to date. All is complete without.
"use strict";
const get = (selector, root = document) => [...root.querySelectorAll(selector)];

// Times: the local one after UTC, where it differs.
const zone = new Date().getTimezoneOffset() !== 0;
const local = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const short = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", timeZoneName: "short" });
function showTimes(root) {
  for (const time of get("time[datetime]", root)) {
    const at = new Date(time.dateTime);
    time.title = `${local.format(at)} (local time)`;
    if (zone && !time.nextElementSibling?.matches(".local")) time.insertAdjacentHTML("afterend", `<span class="local small dim"></span>`);
    if (zone) time.nextElementSibling.textContent = ` ${short.format(at)}`;
  }
}

// Copy buttons say what they did, by sight and by ear.
const announcement = document.createElement("p");
announcement.className = "spoken";
announcement.setAttribute("role", "status");
document.body.append(announcement);
function showCopying(root) {
  if (navigator.clipboard) for (const button of get("[data-copy]", root)) button.hidden = false;
}
document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  await navigator.clipboard.writeText(button.dataset.copy);
  button.classList.add("good");
  announcement.textContent = `Copied ${button.dataset.copy}`;
  setTimeout(() => button.classList.remove("good"), 1500);
});

// Charts: one stop of the Tab key each, then the arrow keys; a step in use shows its values, which its title tells without scripts.
function showCharts(root) {
  for (const chart of get(".chart svg", root)) get("rect", chart).forEach((step, n, all) => {
    step.tabIndex = n === all.length - 1 ? 0 : -1;
    step.setAttribute("role", "img");
    const title = get("title", step)[0];
    if (title) { step.setAttribute("aria-label", title.textContent); title.remove(); }
  });
}
function showTip(event) {
  const step = [event.target, document.activeElement].map((each) => each.closest?.(".chart rect[tabindex]")).find(Boolean);
  for (const tip of get(".tip")) tip.remove();
  if (!step) return;
  const lines = step.getAttribute("aria-label").split(", ");
  const [shift, scale] = step.parentNode.transform.baseVal, middle = shift.matrix.e + (step.x.baseVal.value + 0.5) * scale.matrix.a;
  const x = Math.min(Math.max(middle - 66, 0), 156);
  step.closest("svg").insertAdjacentHTML("beforeend", `<g class="tip" transform="translate(${x})"><path d="M0 0h132v${16 * lines.length + 8}H0z"/>${lines.map((_, n) => `<text x="8" y="${16 * n + 16}"></text>`).join("")}</g>`);
  get(".tip text").forEach((text, n) => (text.textContent = lines[n]));
}
for (const use of ["focusin", "pointerover"]) document.addEventListener(use, showTip);

// Shortcuts; people who speak to their computer can switch them off (WCAG 2.1.4).
const isOff = () => localStorage.getItem("shortcuts") === "off";
let isGoing = 0;
document.addEventListener("keydown", (event) => {
  const step = event.target.closest?.(".chart rect[tabindex]");
  if (step && ["ArrowLeft", "ArrowRight", "Home", "End"].includes(event.key)) {
    const all = [...step.parentNode.children], at = all.indexOf(step);
    const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: all.length - 1 }[event.key];
    if (all[to]) { step.tabIndex = -1; all[to].tabIndex = 0; all[to].focus(); }
    event.preventDefault();
  }
  if (event.target.matches("input, select, textarea") || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "?") return help.open ? help.close() : help.showModal();
  if (isOff() || help.open) return;
  if (event.key === "/") { get("[data-key='/']")[0].focus(); event.preventDefault(); }
  else if (event.key === "g") isGoing = event.timeStamp;
  else if (isGoing && event.timeStamp - isGoing < 1500) { isGoing = 0; get(`[data-go="${event.key}"]`)[0]?.click(); }
  else if (event.key === "j" || event.key === "k") {
    const links = get("main tbody th a"), at = links.indexOf(document.activeElement) + (event.key === "j" ? 1 : -1);
    links[Math.max(0, Math.min(at, links.length - 1))]?.focus();
  }
});
const help = document.createElement("dialog");
help.className = "card";
help.setAttribute("aria-labelledby", "keys-title");
const entry = (keys, text) => `<div><dt>${keys.map((key) => `<kbd>${key}</kbd>`).join(" ")}</dt><dd></dd></div>`;
const entries = [[["/"], "find a payment"], [["j"], "next row"], [["k"], "row before"], ...get("[data-go]").map((link) => [["g", link.dataset.go], link.childNodes[1].textContent.trim()]), [["?"], "this list"]];
help.innerHTML = `<h2 id="keys-title">Keyboard</h2><dl class="list">${entries.map(([keys]) => entry(keys)).join("")}</dl><form method="dialog" class="row"><button type="button" class="plain"></button><button autofocus>Close</button></form>`;
get("dd", help).forEach((cell, n) => (cell.textContent = entries[n][1]));
const switcher = get("button.plain", help)[0];
const label = () => (switcher.textContent = isOff() ? "Switch shortcuts on" : "Switch shortcuts off");
switcher.addEventListener("click", () => { localStorage.setItem("shortcuts", isOff() ? "on" : "off"); label(); });
label();
document.body.append(help);

// Live: each event names the state of the store. A page that shows another state fetches itself and replaces what differs,
// but not under somebody's hands; it says whether it is up to date, and since when it may not be.
const mark = get("[data-live]")[0];
const sources = new Map(get("[data-live-part], .side ul").map((part) => [part, part.innerHTML]));
function replace(part, fresh) {
  const typed = get(":is(input, select, textarea)[id]", part).filter((field) => field.value !== (field.defaultValue ?? "")).map((field) => [field.id, field.value]);
  const open = get("details[open][id]", part).map((each) => each.id);
  sources.set(part, fresh.innerHTML);
  part.replaceChildren(...fresh.childNodes);
  for (const [id, value] of typed) { const field = document.getElementById(id); if (field) field.value = value; }
  for (const id of open) { const each = document.getElementById(id); if (each) each.open = true; }
  show(part);
}
function follow() {
  const [word, time, news] = ["[data-word]", "time", "button"].map((each) => get(each, mark)[0]);
  let events, silence, held = [], loaded = Date.now(), isHeard = false, isLoading = false, isTyped = false;
  const tell = (text, kind = "") => { word.textContent = text; for (const each of ["good", "bad"]) mark.classList.toggle(each, each === kind); };
  const date = (at) => { time.dateTime = at; time.textContent = `${at.slice(11, 19)} UTC`; showTimes(mark); };
  const affirm = () => { if (isHeard && !held.length && !document.hidden) tell("Up to date:", "good"); };
  function lose(text = "May be out of date: as of") {
    clearTimeout(silence);
    isHeard = false;
    if (word.textContent !== text) announcement.textContent = `${text} ${time.textContent}`;
    tell(text, "bad");
  }
  async function load() {
    if (isLoading) return;
    isLoading = true;
    try {
      const answer = await fetch(location.href, { headers: { "X-Live": "1" }, signal: AbortSignal.timeout(5000) });
      if (answer.redirected) return isTyped ? lose("Your session has ended: as of") : location.reload();
      if (!answer.ok) return lose();
      const page = new DOMParser().parseFromString(await answer.text(), "text/html"), fresh = get("[data-live]", page)[0];
      const found = [...sources].map(([part, source]) => [part, part.id ? page.getElementById(part.id) : get(".side ul", page)[0], source]);
      held = [];
      for (const [part, now, source] of found) if (now && now.innerHTML !== source) {
        if (!part.contains(document.activeElement) && !part.querySelector("details[open]")) replace(part, now);
        else if (part.id) held.push([part, now]);
      }
      mark.dataset.live = fresh.dataset.live;
      loaded = Date.now();
      const links = new Set(get("main th a").map((link) => link.href));
      const added = held.flatMap(([, now]) => get("th a", now)).filter((link) => !links.has(new URL(link.getAttribute("href"), location).href)).length;
      news.hidden = !held.length;
      const text = added ? `${added} new payment${added > 1 ? "s" : ""} · show` : "Changed · show";
      if (held.length && news.textContent !== text) announcement.textContent = news.textContent = text;
      if (held.length) tell("As of"); else { date(get("time", fresh)[0].dateTime); affirm(); }
    } catch { lose(); } finally { isLoading = false; }
  }
  news.addEventListener("click", () => {
    for (const each of held) replace(...each);
    held = [];
    news.hidden = true;
    mark.tabIndex = -1;
    mark.focus();
    load();
  });
  function listen() {
    events = new EventSource("/events");
    events.onmessage = (event) => {
      clearTimeout(silence);
      silence = setTimeout(lose, 6000);
      if (document.hidden || !navigator.onLine) return;
      isHeard = true;
      // Some of a page changes with time alone, such as for how long a payment has waited.
      if (event.lastEventId !== mark.dataset.live || Date.now() - loaded > 60000) load();
      else if (!held.length) { date(event.data); affirm(); }
    };
    events.onerror = () => {
      if (isHeard) tell("As of");
      isHeard = false;
      if (events.readyState === EventSource.CLOSED) { load(); lose(); setTimeout(listen, 15000); }
    };
  }
  addEventListener("input", () => (isTyped = true));
  addEventListener("offline", () => lose());
  addEventListener("online", load);
  document.addEventListener("visibilitychange", () => { isHeard = false; tell("As of"); if (!document.hidden) load(); });
  addEventListener("pagehide", () => events.close());
  addEventListener("pageshow", (event) => { if (event.persisted) { listen(); load(); } });
  silence = setTimeout(lose, 6000);
  listen();
}
function show(root) { showTimes(root); showCopying(root); showCharts(root); }
show(document);
if (mark) follow();
