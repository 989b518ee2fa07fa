// Follows the virtual phone: shows what is new on it as soon as there is something. Without it the page looks again by itself.
"use strict";
(() => {
  const line = document.querySelector("[data-phone-events]");
  if (!line) return;
  const events = new EventSource(line.dataset.phoneEvents);
  events.onmessage = ({ data }) => {
    events.close();
    const isTyping = [...document.querySelectorAll(".pin")].some((each) => each.value);
    if (isTyping) line.textContent = "There is something new on this phone; you see it after your answer.";
    else location.replace(line.dataset.page + (data === "prompt" ? "" : location.search));
  };
})();
