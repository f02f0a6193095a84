// The page as a whole: its bar, its addresses, its keys, and what its views share.
//
// #/ is the list of videos, #/v/ID the conversation about one (#/v/ while it is uploaded), #/q/ID?t=12.5 an answer in
// detail, at a time.
"use strict";

(() => {
  const { el, count } = VIEW;
  let model = null;

  // The viewer's components link to questions; there is no list to filter here.
  VIEW.filters = { query: () => "", read: () => null, rows: () => [] };

  // `back`, `href`: the view that Escape goes to; none on the first one.
  function bar(back, href) {
    return el("nav.bar", { "aria-label": "Page" },
      back ? [el("a.back", { href, title: `${back} (Escape)` }, `← ${back}`), el("kbd.hints", { "aria-hidden": "true" }, "esc")] : el("strong.name", {}, "VideoPro"),
      el("span.id", {}, back ? "" : model.id),
      el("span.actions"), el("span.legend-place"), VIEW.theme.picker());
  }

  // Copy a text, or show it selected where the browser gives no clipboard: it does on https and on this machine only.
  async function copy(button, text) {
    const name = button.textContent;
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
      setTimeout(() => (button.textContent = name), 3000);
    } catch {
      const field = el("textarea.copied", { readonly: true, rows: 1, "aria-label": "Press Ctrl+C or ⌘C to copy", onblur: () => field.replaceWith(button) });
      field.value = text;
      button.replaceWith(field);
      field.select();
    }
  }

  // Ask before something is lost, which `act` does then. Resolves to whether it did; why it could not is shown there.
  function confirm(text, action, act = () => null) {
    return new Promise((resolve) => {
      const problem = el("p.problem", { role: "alert", hidden: true });
      const onsubmit = async (event) => {
        if (!event.submitter.value) return;
        event.preventDefault();
        event.submitter.disabled = true;
        try {
          await act();
          dialog.close("yes");
        } catch (error) {
          problem.textContent = error.message;
          problem.hidden = event.submitter.disabled = false;
        }
      };
      const dialog = el("dialog.ask-first", { "aria-labelledby": "ask-first" },
        el("form", { method: "dialog", onsubmit }, el("p", { id: "ask-first" }, text), problem,
          el("div.buttons", {}, el("button.plain", { value: "" }, "Cancel"), el("button.primary", { value: "yes" }, action))));
      dialog.addEventListener("close", () => {
        dialog.remove();
        resolve(dialog.returnValue === "yes");
      });
      document.body.append(dialog);
      dialog.showModal();
    });
  }

  // Delete a video with its questions, and go to the list.
  async function deleteVideo({ id, filename }, asked) {
    const with_ = asked ? ` and its ${asked === 1 ? "question" : `${count(asked)} questions`}` : "";
    if (!await confirm(`Delete ${filename}${with_}?`, "Delete", () => VIEW.api.remove(VIEW.videos.path(id, "?questions=true")))) return;
    VIEW.talk.forget(id);
    if (location.hash !== "#/") location.hash = "#/";
    else {
      await VIEW.library.refresh();
      document.querySelector("main h1").focus();
    }
  }

  // Which model answers; plainly, where it can answer next to nothing.
  const description = () => el("p.model", {}, "Answered by ", el("strong", {}, model.id),
    model.videopro.note ? [": ", el("span.note-of-model", {}, model.videopro.note)] : null);

  // Why the model cannot answer about a video, such as a small model about a real one.
  const scope = ({ videopro: { problem } }) => (problem ? el("p.note.missing", { role: "alert" }, problem) : null);

  function when(seconds) {
    const date = new Date(1000 * seconds);
    const isToday = date.toDateString() === new Date().toDateString();
    return date.toLocaleString([], isToday ? { timeStyle: "short" } : { dateStyle: "medium", timeStyle: "short" });
  }

  // A view that has nothing to show says why.
  function gone(main, text) {
    main.replaceChildren(bar("Videos", "#/"), el("div.problem.gone", {}, el("h1", { tabindex: -1 }, text), el("a.plain", { href: "#/" }, "Ask a question")));
    settle(main.querySelector(".gone h1"));
  }

  // The focus moves with the view. On a screen for fingers, a field would open the keyboard over the page.
  function settle(node) {
    const isField = node.matches("textarea");
    (isField && matchMedia("(pointer: coarse)").matches ? document.querySelector("main h1") : node)?.focus({ preventScroll: true });
  }

  const replace = (hash) => {
    history.replaceState(null, "", hash);
    show();
  };

  function address() {
    const [, video] = location.hash.match(/^#\/v\/([^?]*)/) ?? [];
    if (video === undefined) return VIEW.address();
    return { video: video || null, id: null, query: "", time: null };
  }

  function current() {
    const { id, video } = address();
    return id !== null ? VIEW.live : video !== undefined ? VIEW.thread : VIEW.library;
  }

  function show() {
    const { id, video, query, time } = address();
    const same = id !== null && VIEW._shown === `${id}\n${query}`;
    VIEW._shown = `${id}\n${query}`;
    if (same && time !== null && VIEW.seek(time)) return;
    const main = document.getElementById("main");
    VIEW.live.leave();
    VIEW.thread.leave();
    scrollTo(0, 0);
    if (id !== null) VIEW.live.show(main, id);
    else if (video !== undefined) VIEW.thread.show(main, video);
    else VIEW.library.show(main);
  }

  // / goes to the question, p plays, ? opens the legend, Escape goes back. No key acts while something is typed.
  function key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest?.("dialog")) return;
    const field = event.target.closest?.("input, select, textarea");
    if (event.key === "Escape") {
      if (field) field.blur();
      else if (VIEW.toggleLegend(false)) document.querySelector(".legend-button[aria-controls]").focus();
      else document.querySelector(".bar a.back")?.click();
      return;
    }
    if (field) return;
    const search = () => document.querySelector("#question, main input[type=search]")?.focus();
    const act = { p: VIEW.togglePlay, "?": () => VIEW.toggleLegend(), "/": search }[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  }

  async function start() {
    try {
      [model] = await VIEW.api.list("v1/models");
    } catch (error) {
      document.getElementById("main").replaceChildren(el("h1.empty", {}, error.message));
      return;
    }
    addEventListener("hashchange", show);
    addEventListener("server-back", () => current().refresh());
    // Others ask, too.
    document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && current().refresh());
    addEventListener("beforeunload", (event) => VIEW.talk.isUnfinished() && event.preventDefault());
    document.addEventListener("keydown", key);
    show();
  }

  VIEW.app = {
    start, bar, copy, confirm, deleteVideo, scope, when, gone, settle, replace,
    model: description,
    largestVideo: () => model.videopro.largest_video,
    sample: () => model.videopro.sample, // Of a model that brings videos of its own.
    converses: () => model.videopro.converses, // Whether it reads earlier questions and answers.
  };
  VIEW.app.start();
})();
