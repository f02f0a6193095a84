// The page as a whole: its bar, its addresses (#/ to ask, #/q/ID?t=12.5 for a question and a time), and its keys.
"use strict";

(() => {
  const { el } = VIEW;

  VIEW.app = (() => {
    let model = null;

    // The viewer's components link to questions; there is no list to filter here.
    VIEW.filters = { query: () => "", read: () => null, rows: () => [] };

    function bar(question) {
      return el("nav.bar", {},
        question ? [el("a.back", { href: "#/", title: "Ask about a video (Escape)" }, "← Ask"), el("kbd.hints", { "aria-hidden": "true" }, "esc")] : el("strong.name", {}, "VideoPro"),
        el("span.id", {}, question ? "" : (model?.id ?? "")),
        question ? el("button.legend-button.copy-link", { onclick: (event) => copyLink(event.currentTarget) }, "Copy link") : null,
        el("span.legend-place"), VIEW.theme.picker());
    }

    // What depends on the question: the name of its film, and the marks that its page has.
    function updateBar(own, content) {
      const node = document.querySelector("nav.bar");
      node.querySelector(".id").textContent = own.film?.filename ?? "";
      const hasSteps = content.rounds.some((round) => round.steps.length);
      const hasCalls = content.rounds.some((round) => round.calls.length || round.listing.length);
      if (own.legend === `${hasSteps}${hasCalls}`) return;
      own.legend = `${hasSteps}${hasCalls}`;
      node.querySelector(".legend-place").replaceChildren(...VIEW.legend(VIEW.legend.question(hasSteps, hasCalls, true)));
    }

    async function copyLink(button) {
      const link = location.href;
      try {
        await navigator.clipboard.writeText(link);
        button.textContent = "Copied";
      } catch {
        // Browsers give the clipboard to pages of https and of this machine only.
        const field = el("input.link", { type: "text", readonly: true, value: link, "aria-label": "The link", onblur: () => field.replaceWith(button) });
        button.replaceWith(field);
        field.select();
        return;
      }
      setTimeout(() => (button.textContent = "Copy link"), 3000);
    }

    // Which model answers; plainly, where it can answer next to nothing.
    const description = () => model === null ? null : el("p.model", {}, "Answered by ", el("strong", {}, model.id),
      model.videopro?.note ? [": ", el("span.note-of-model", {}, model.videopro.note)] : null);

    // Why the model cannot answer about a film, such as a small model about a real one.
    const scope = (film) => (film.videopro?.problem ? el("p.note.missing", { role: "alert" }, film.videopro.problem) : null);

    async function show() {
      const { id, query, time } = VIEW.address();
      const same = id !== null && VIEW._shown === `${id}\n${query}`;
      VIEW._shown = `${id}\n${query}`;
      if (same && time !== null && VIEW.seek(time)) return;
      const main = document.getElementById("main");
      if (id !== null) return VIEW.live.show(main, id);
      VIEW.live.leave();
      VIEW.home.show(main);
    }

    // / goes to the question, p plays, ? opens the legend, Escape goes back. No key acts while something is typed.
    function key(event) {
      if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest?.("dialog")) return;
      const field = event.target.closest?.("input, select, textarea");
      if (event.key === "Escape") {
        if (field) field.blur();
        else if (VIEW.toggleLegend(false)) document.querySelector(".legend-button[aria-controls]").focus();
        else if (VIEW.address().id !== null) location.hash = "#/";
        return;
      }
      if (field) return;
      const act = { p: VIEW.togglePlay, "?": () => VIEW.toggleLegend(), "/": () => document.getElementById("question")?.focus() }[event.key];
      if (!act) return;
      event.preventDefault();
      act();
    }

    async function start() {
      try {
        [model] = await VIEW.api.list("v1/models");
      } catch (error) {
        document.getElementById("main").replaceChildren(el("p.empty", {}, error.message));
        return;
      }
      addEventListener("hashchange", show);
      addEventListener("server-back", () => (VIEW.address().id === null ? VIEW.home : VIEW.live).refresh());
      document.addEventListener("keydown", key);
      show();
    }

    const largestFilm = () => model.videopro.largest_film;
    const sample = () => model?.videopro?.sample; // Of a model that brings films of its own.

    return { start, bar, sample, largestFilm, updateBar, model: description, scope };
  })();
  VIEW.app.start();
})();
