// Follows a payment while its page is open. Everything works without it; nothing here decides anything.
"use strict";
(() => {
  const find = (what) => document.querySelector(what);
  const line = find("[data-standing]"), left = find("[data-left]"), offline = find("[data-offline]");
  const button = find("article button"), help = find("[data-help]");
  // A date is written as the payer's own clock shows it.
  for (const time of document.querySelectorAll("article time")) {
    const { lang } = document.documentElement;
    const own = navigator.languages.find((each) => each.split("-")[0] === lang) || lang;
    const digits = /[٠-٩]/.test(time.textContent) ? "arab" : "latn";
    const form = { day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
    time.textContent = new Intl.DateTimeFormat(`${own}-u-nu-${digits}`, form).format(new Date(time.dateTime));
  }
  if (!line) return;
  const again = () => location.replace(line.dataset.page);

  addEventListener("pageshow", (shown) => {
    if (shown.persisted) location.reload(); // The back button brought an old page back.
  });
  if (button) {
    button.form.addEventListener("submit", () => { button.setAttribute("aria-disabled", "true"); });
    button.addEventListener("click", (click) => {
      if (button.getAttribute("aria-disabled")) click.preventDefault();
    });
  }
  if (!offline) return;

  const events = new EventSource(line.dataset.events);
  let silence;
  const tell = (isLost) => {
    silence = clearTimeout(silence);
    offline.hidden = !isLost;
  };
  // Waits until the page can be had: an error page of the browser or of a proxy would lead nowhere.
  const load = () => fetch(line.dataset.page, { method: "HEAD", redirect: "manual" })
    .then((page) => (page.ok || page.type === "opaqueredirect" ? again() : Promise.reject()))
    .catch(() => { tell(true); setTimeout(load, 3000); });
  addEventListener("offline", () => tell(true));
  addEventListener("online", () => tell(false));
  events.onopen = () => tell(false);
  events.onmessage = (event) => {
    const update = JSON.parse(event.data);
    if (update.left && left) left.textContent = left.dataset.left.replace("%", update.left);
    if (update.help && help) help.hidden = false;
    if (update.standing === line.dataset.standing) return;
    const text = button ? "" : line.dataset[update.standing];
    if (!text) {
      events.close();
      again();
      return;
    }
    line.dataset.standing = update.standing;
    line.className = `${update.standing} outcome`;
    line.textContent = text;
  };
  events.onerror = () => {
    silence ||= setTimeout(tell, 6000, true); // A stream also ends by itself, and the next one follows at once.
    if (events.readyState === EventSource.CLOSED && !button) setTimeout(load, 3000);
  };
})();
