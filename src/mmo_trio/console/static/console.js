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

// Charts: one stop of the Tab key each, then the arrow keys.
function showCharts(root) {
  for (const chart of get(".chart svg", root)) get("g[tabindex]", chart).forEach((step, n, all) => (step.tabIndex = n === all.length - 1 ? 0 : -1));
}

// Shortcuts; people who speak to their computer can switch them off (WCAG 2.1.4).
const isOff = () => localStorage.getItem("shortcuts") === "off";
let isGoing = 0;
document.addEventListener("keydown", (event) => {
  const step = event.target.closest?.(".chart g[tabindex]");
  if (step && ["ArrowLeft", "ArrowRight", "Home", "End"].includes(event.key)) {
    const all = get("g[tabindex]", step.closest("svg")), at = all.indexOf(step);
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
help.innerHTML = `<h2 id="keys-title">Keyboard</h2><dl class="list">${entries.map(([keys]) => entry(keys)).join("")}</dl><form method="dialog" class="row"><button type="button" class="plain"></button><button>Close</button></form>`;
get("dd", help).forEach((cell, n) => (cell.textContent = entries[n][1]));
const switcher = get("button.plain", help)[0];
const label = () => (switcher.textContent = isOff() ? "Switch shortcuts on" : "Switch shortcuts off");
switcher.addEventListener("click", () => { localStorage.setItem("shortcuts", isOff() ? "on" : "off"); label(); });
label();
document.body.append(help);

// Live: when something has happened, the page fetches itself and replaces what has changed, unless somebody is in it.
const isBusy = (part) => part.contains(document.activeElement) || part.querySelector("details[open]");
async function reload() {
  const answer = await fetch(location.href, { headers: { "X-Live": "1" } });
  if (!answer.ok || answer.redirected) return location.reload();
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const part of get("[data-live-part], .side ul")) {
    const fresh = part.id ? page.getElementById(part.id) : page.querySelector(".side ul");
    if (fresh && !isBusy(part) && part.innerHTML !== fresh.innerHTML) { part.replaceChildren(...fresh.childNodes); show(part); }
  }
}
let isWaiting = false;
if (get("[data-live]").length) {
  const events = new EventSource("/events");
  events.onopen = () => get("[data-live]").forEach((mark) => mark.classList.add("good"));
  events.onmessage = () => {
    if (!isWaiting && !document.hidden) { isWaiting = true; setTimeout(() => { isWaiting = false; reload(); }, 500); }
  };
  addEventListener("pagehide", () => events.close());
}
function show(root) { showTimes(root); showCopying(root); showCharts(root); }
show(document);
