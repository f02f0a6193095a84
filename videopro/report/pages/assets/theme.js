// Light or dark: as the system says, unless the reader chose one of them. Loaded before the styles, so that a page
// never flashes in the other theme.
"use strict";

const VIEW = {}; // Everything of a page is here: a run's pages open from disk, where browsers load classic scripts only.

VIEW.theme = (() => {
  const KEY = "videopro.theme";
  const NAMES = { auto: "Auto", light: "Light", dark: "Dark" };
  const isDark = matchMedia("(prefers-color-scheme: dark)");
  let chosen = remembered();

  // A browser may keep nothing for pages from disk: then the choice lasts as long as the page.
  function remembered() {
    try {
      const name = localStorage.getItem(KEY);
      return name in NAMES ? name : "auto";
    } catch {
      return "auto";
    }
  }

  function apply() {
    document.documentElement.dataset.theme = chosen === "auto" ? (isDark.matches ? "dark" : "light") : chosen;
  }

  function choose(name) {
    chosen = name;
    apply();
    try {
      localStorage.setItem(KEY, name);
    } catch {
      // See `remembered`.
    }
  }

  apply();
  isDark.addEventListener("change", apply);
  // A page of the same site in another tab.
  addEventListener("storage", (event) => {
    if (event.key !== KEY) return;
    chosen = remembered();
    apply();
    for (const field of document.querySelectorAll("select.theme")) field.value = chosen;
  });

  return {
    picker: () =>
      VIEW.el("select.theme", { "aria-label": "Theme", title: "Theme", onchange: (event) => choose(event.target.value) },
        Object.entries(NAMES).map(([name, title]) => VIEW.el("option", { value: name, selected: name === chosen }, title))),
  };
})();
