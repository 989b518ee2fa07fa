// Extras of the documentation, which works without them: copying, one language for all examples, results while typing.
const all = (selector) => document.querySelectorAll(selector);

if (navigator.clipboard) {
  for (const sample of all(".sample")) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "Copy";
    button.addEventListener("click", async () => {
      const shown = [...sample.querySelectorAll("pre")].find((each) => each.checkVisibility());
      try {
        await navigator.clipboard.writeText(shown.textContent);
        button.textContent = "Copied";
      } catch {
        button.textContent = "Select it, please";
      }
      button.dataset.done = "";
      setTimeout(() => { button.textContent = "Copy"; delete button.dataset.done; }, 2000);
    });
    sample.append(button);
  }
}

const choose = (language) => {
  for (const each of all(".sample > [type=radio]")) each.checked = each.value === language;
};
const languages = new Set([...all(".sample > [type=radio]")].map((each) => each.value));
let remembered = null;
try { remembered = localStorage.getItem("language"); } catch { /* The browser keeps nothing for pages. */ }
if (languages.has(remembered)) choose(remembered);
document.addEventListener("change", ({ target }) => {
  if (!target.matches(".sample > [type=radio]")) return;
  const before = target.getBoundingClientRect().top;
  choose(target.value);
  scrollBy({ top: target.getBoundingClientRect().top - before, behavior: "instant" });
  try { localStorage.setItem("language", target.value); } catch { /* It is chosen for this page only. */ }
});

const input = document.querySelector("#q"); // The sandbox's front has none.
if (input) {
  const found = document.querySelector("#found");
  let asked = 0;
  input.addEventListener("input", async () => {
    const number = ++asked;
    found.hidden = !input.value.trim();
    if (found.hidden) return;
    try {
      const answer = await fetch(`/docs/search?part=1&q=${encodeURIComponent(input.value)}`);
      const text = answer.ok ? await answer.text() : "";
      // Who has moved to a result already keeps it.
      if (number === asked && !found.contains(document.activeElement)) found.innerHTML = text;
    } catch {
      found.hidden = true;
    }
  });
  found.addEventListener("click", () => { found.hidden = true; });
  document.addEventListener("click", ({ target }) => { if (!target.closest(".search")) found.hidden = true; });
  document.addEventListener("keydown", (event) => {
    const isTyping = event.target.closest("input, textarea, select");
    if (event.key === "/" && !isTyping && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      input.focus();
    }
    if (!event.target.closest(".search")) return;
    const links = [input, ...found.querySelectorAll("a")];
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === "Escape") { found.hidden = true; input.focus(); }
    if (step && !found.hidden) {
      event.preventDefault();
      links[(links.indexOf(document.activeElement) + step + links.length) % links.length].focus();
    }
  });
}

// Where CSS can't mark the place in the navigation, the section under the header is marked here.
const nav = document.querySelector(".side");
if (nav && !CSS.supports("scroll-target-group", "auto")) {
  const links = new Map([...nav.querySelectorAll("a")].map((each) => [each.hash.slice(1), each]));
  const watch = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      if (!isIntersecting || !links.has(target.id)) continue;
      nav.querySelector("[aria-current]")?.removeAttribute("aria-current");
      links.get(target.id).setAttribute("aria-current", "true");
    }
  }, { rootMargin: "-10% 0px -85% 0px" });
  for (const each of all("main [id]")) watch.observe(each);
}
