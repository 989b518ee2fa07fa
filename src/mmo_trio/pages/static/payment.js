// Follows a payment while its page is open. Everything works without it; nothing here decides anything.
"use strict";
(() => {
  const line = document.querySelector("[data-standing]");
  if (!line) return;
  const left = document.querySelector("[data-left]");
  const button = document.querySelector("article button");
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
  if (!["open", "sending", "waiting"].includes(line.dataset.standing)) return;

  const events = new EventSource(line.dataset.events);
  events.onmessage = (event) => {
    const update = JSON.parse(event.data);
    if (update.left && left) left.textContent = left.dataset.left.replace("%", update.left);
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
    if (events.readyState === EventSource.CLOSED && !button) setTimeout(again, 3000);
  };
})();
