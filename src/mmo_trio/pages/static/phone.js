// Shows a message on the virtual phone as soon as there is one. Without it the page looks again by itself.
"use strict";
(() => {
  const line = document.querySelector("[data-phone-events]");
  if (!line) return;
  const events = new EventSource(line.dataset.phoneEvents);
  events.onmessage = () => {
    events.close();
    location.replace(line.dataset.page);
  };
})();
