// The list of several runs, each a link to its own pages.
"use strict";

(() => {
  const { el, percent, count } = VIEW;
  let runs = null;
  VIEW.runs = (_, content) => (runs = content);

  const isLive = () => runs?.some((run) => run.progress);
  VIEW.news = () => isLive() && { path: "data/runs.js", more: runs.some((run) => run.progress.reading) };

  VIEW.start = VIEW.update = () => {
    const main = document.getElementById("main");
    if (!runs) {
      main.replaceChildren(el("h1.empty", {}, "data/runs.js is missing or broken; re-run the command that made this folder."));
      return;
    }
    main.className = "runs";
    const titles = ["run", "method", "benchmark", "model", "accuracy", "questions", "videos", "no answer", ...(isLive() ? ["progress"] : [])];
    main.replaceChildren(
      el("nav.bar", {}, el("span.grow"), VIEW.theme.picker()),
      el("header.run", {}, el("h1", {}, `${runs.length} runs`)),
      el("div.scroll", {}, el("table", {},
        el("thead", {}, el("tr", {}, titles.map((title) => el("th", { scope: "col" }, title)))),
        el("tbody", {}, runs.map(line)))));
  };

  function line({ page, name, run, accuracy, questions, videos, unanswered, progress }) {
    const href = page.split("/").map(encodeURIComponent).join("/");
    return el("tr", {},
      el("th", { scope: "row" }, el("a.link", { href }, name)),
      [run.method, [run.benchmark, run.split].filter(Boolean).join(" "), run.model].map((text) => el("td", {}, text ?? "–")),
      [percent(accuracy), count(questions), count(videos), unanswered ? count(unanswered) : "–"].map((text) => el("td.amount", {}, text)),
      progress ? el("td", {}, progress.running || progress.done < progress.total ? `${count(progress.done)} of ${count(progress.total)}, ` : "", VIEW.runStatus(progress)) : null);
  }
})();
