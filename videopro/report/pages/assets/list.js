// The list of questions: the run's numbers, the filters, and a row for each question that passes.
"use strict";

(() => {
  const { el, percent, two, count, duration, stateMark, meter } = VIEW;
  const CHUNK = 60; // Rows added per scroll; thousands at once would be slow.
  let rows = [];
  let from = 0; // The rows that are drawn: returning to question 4,000 does not draw the thousands before it.
  let drawn = 0;
  let updated = null; // VIEW.rows as they were drawn.
  let last = null; // The question that was open, to continue there.
  let list, more, before, counts, watcher;

  VIEW.showList = () => {
    document.title = `${VIEW.run.name} · traces`;
    const main = document.getElementById("main");
    if (!list || !main.contains(list)) {
      list = el("ol.rows", { class: VIEW.rows.some((row) => row.steps > 0) ? "agents" : null });
      more = el("div.more");
      before = el("button.quiet.before", {
        onclick: () => {
          const place = from - 1;
          draw(from - CHUNK, drawn);
          VIEW.focusRow(place);
        },
      });
      counts = el("p", { "aria-live": "polite" });
      watcher?.disconnect();
      watcher = new IntersectionObserver((seen) => seen.some((entry) => entry.isIntersecting) && draw(from, drawn + CHUNK), { rootMargin: "900px" });
      watcher.observe(more);
      const wide = matchMedia("(min-width: 900px)");
      wide.onchange = () => wide.matches && main.querySelector("details.panel")?.setAttribute("open", "");
      main.className = "list";
      const hasSteps = VIEW.rows.some((row) => row.steps > 0);
      main.replaceChildren(
        el("nav.bar", {},
          VIEW.run.overview ? el("a.back", { href: VIEW.run.overview }, "← all runs") : null,
          hints(), VIEW.legend(VIEW.legend.list(hasSteps)), VIEW.theme.picker()),
        head(),
        el("div.columns", {},
          el("aside", {}, el("details.panel", { open: wide.matches }, el("summary", {}, "Filters"), el("div#panel", { id: "panel" }))),
          el("div.found", {}, el("div.totals", {}, counts, VIEW.filters.sorter()), before, list, more)));
    }
    const panel = document.getElementById("panel");
    // The panel is redrawn with new counts. Of a control that is gone, the focus moves to the first one, the search.
    keepFocus(panel, () => panel.replaceChildren(...VIEW.filters.panel().filter(Boolean)));
    refill(last);
    last = null;
  };

  // The panel is redrawn with new counts; keyboard focus stays where it was.
  function keepFocus(panel, draw) {
    const { id, dataset } = panel.contains(document.activeElement) ? document.activeElement : {};
    draw();
    if (!dataset) return;
    const same = (chip) => (id ? chip.id === id : ["result", "mark", "kind", "value"].every((name) => chip.dataset[name] === dataset[name]));
    const controls = [...panel.querySelectorAll("button, input")];
    (controls.find(same) ?? controls[0]).focus({ preventScroll: true });
  }

  // New answers: the list takes those that pass the filters, and the row at the top of the window stays where it is.
  VIEW.updateList = () => {
    if (updated === VIEW.rows) return void redrawHead();
    if (!updated.length) {
      list = null; // It is laid out by the first answers: by whether they have steps.
      return VIEW.showList();
    }
    redrawHead();
    updated = VIEW.rows;
    const panel = document.getElementById("panel");
    // A slider that is being moved would be lost.
    if (!document.activeElement?.matches("input[type=range]")) keepFocus(panel, () => panel.querySelector(".facets").replaceWith(VIEW.filters.facets()));
    rows = VIEW.filters.rows();
    total();
    const top = [...list.children].find((row) => row.getBoundingClientRect().bottom > 0);
    const before = top?.getBoundingClientRect().top;
    const focused = document.activeElement?.closest(".row")?.dataset.id;
    const old = [...list.children];
    const made = new Map(old.map((node) => [node.row, node]));
    const now = rows.slice(from, Math.max(drawn, from + CHUNK)).map((row) => made.get(row) ?? line(row));
    if (old.every((node, i) => node === now[i])) list.append(...now.slice(old.length));
    else {
      list.replaceChildren(...now);
      now.find((node) => node.row.id === focused)?.firstChild.focus({ preventScroll: true });
      if (top?.isConnected) scrollBy(0, top.getBoundingClientRect().top - before);
    }
    drawn = from + now.length;
    draw(from, drawn);
    none();
  };

  // After typing or sliding: the panel's own fields are not redrawn.
  VIEW.refreshList = () => {
    const panel = document.getElementById("panel");
    const old = panel.querySelector(".facets");
    if (document.activeElement?.id === "search") old.replaceWith(VIEW.filters.facets());
    refill();
  };

  VIEW.leaveList = (id) => (last = id);

  // `id`: the question that the list begins around.
  function refill(id = null) {
    rows = VIEW.filters.rows();
    updated = VIEW.rows;
    total();
    list.replaceChildren();
    const at = id === null ? -1 : rows.findIndex((row) => row.id === id);
    from = drawn = Math.max(0, at - CHUNK / 2);
    draw(from, from + CHUNK);
    if (at >= 0) VIEW.focusRow(at, "center");
    else if (id !== null) document.querySelector("h1").focus();
    none();
  }

  const none = () => rows.length || list.append(el("li.empty", {}, VIEW.rows.length ? "No questions match these filters." : "No answers yet."));

  function total() {
    const right = VIEW.filters.accuracy(rows);
    counts.replaceChildren(
      el("strong", {}, rows.length === VIEW.rows.length ? `${count(rows.length)} questions` : `${count(rows.length)} of ${count(VIEW.rows.length)} questions`),
      right === null ? "" : `${percent(right)} right`);
  }

  // Draw what is missing of rows `start` to `end`.
  function draw(start, end) {
    list.append(...rows.slice(drawn, end).map(line));
    drawn = Math.max(drawn, Math.min(rows.length, end));
    const first = Math.max(0, Math.min(start, from));
    list.prepend(...rows.slice(first, from).map(line));
    from = first;
    more.hidden = drawn >= rows.length;
    before.hidden = from === 0;
    before.textContent = `${count(from)} questions before`;
  }

  function line(row) {
    const groups = Object.values(row.groups);
    const same = row.letter !== null && row.state === "right";
    const node = el("li", {}, el(`a.row.${row.state}`, { href: VIEW.hash(row.id), "data-id": row.id },
      stateMark(row.state),
      el("span.what", {}, el("b", {}, row.question), el("span.sub", {}, [row.id, ...new Set(groups)].join("  ·  "))),
      el("span.how", {},
        row.mode ? el("span.tag", {}, row.mode) : null,
        row.steps ? el("span.tag", {}, `${count(row.steps)} step${row.steps === 1 ? "" : "s"}  ·  ${count(row.frames)} frames`) : null,
        row.marks.has("unparsed_step") ? el("span.tag.failed", {}, "unparsed step") : null,
        row.marks.has("fixed") ? el("span.tag.fixed", {}, "fixed")
          : row.marks.has("broken") ? el("span.tag.broken", {}, "broken")
          : row.marks.has("refined") ? el("span.tag.refined", {}, "refined") : null,
        row.marks.has("fallback") ? el("span.tag.failed", {}, "fallback")
          : row.marks.has("failed") ? el("span.tag.failed", {}, "failed") : null),
      row.words !== null ? words(row) : el("span.letters", { title: `answered ${row.letter ?? "nothing"}, the right letter is ${row.gold ?? "unknown"}` },
        el("span.letter.given", { class: ["right", "wrong"].includes(row.state) ? row.state : null }, row.letter ?? "–"),
        same || row.gold === null ? null : [el("span.versus", {}, "right:"), el("span.letter.gold", {}, row.gold)]),
      el("span.sure", {}, row.confidence === null ? null : [meter(row.confidence), el("span", {}, two(row.confidence))]),
      el("span.seconds", {}, duration(row.seconds))));
    node.row = row;
    return node;
  }

  // What an open question was answered with, and what the reference is.
  const words = (row) =>
    el("span.words", { title: row.reference === null ? null : `reference: ${row.reference}` },
      el("span", {}, row.words || "no answer"),
      row.reference === null ? null : el("small", {}, `reference: ${row.reference}`));

  VIEW.focusRow = (place, block = "nearest") => {
    if (place < 0 || place >= rows.length) return;
    draw(Math.min(from, place), place < drawn ? drawn : place + CHUNK);
    const row = list.children[place - from].firstChild;
    row.focus({ preventScroll: true });
    row.scrollIntoView({ block });
  };
  VIEW.moveRow = (step) => {
    const at = [...list.children].indexOf(document.activeElement?.closest?.(".rows > li"));
    VIEW.focusRow(at < 0 ? from : from + at + step);
  };

  function redrawHead() {
    const header = document.querySelector("header.run");
    // What a reader has selected there stays, unless a number changed.
    if (header.numbers === JSON.stringify(VIEW.run.numbers)) header.lastChild.replaceWith(VIEW.runProgress(VIEW.run.progress));
    else header.replaceWith(head());
  }

  function head() {
    const { name, run, numbers } = VIEW.run;
    const about = [run.method, [run.benchmark, run.split].filter(Boolean).join(" "), run.model].filter(Boolean).join("  ·  ");
    // A few videos say nothing about how far the accuracy would differ on others.
    const ci = numbers.videos >= 5 ? numbers.accuracy_ci95 : null;
    const leftOut = Object.entries(numbers.left_out).map(([reason, many]) => `; left out: ${many} ${reason}`).join("");
    const errors = Object.values(numbers.errors).reduce((sum, count) => sum + count, 0);
    const stats = [
      ["accuracy", percent(numbers.accuracy), ci ? `${(100 * ci[0]).toFixed(1)} to ${(100 * ci[1]).toFixed(1)}${leftOut}` : `${numbers.n} scored${leftOut}`],
      ["questions", count(numbers.questions), `${count(numbers.videos)} video${numbers.videos === 1 ? "" : "s"}`],
    ];
    if (numbers.modes.program) stats.push(["multi-step", percent(numbers.modes.program, 0), `direct ${percent(numbers.modes.native, 0)}`]);
    if (numbers.modes.refined) stats.push(["refined", percent(numbers.modes.refined, 0), `fallback ${percent(numbers.modes.fallback, 0)}`]);
    const agents = VIEW.rows.filter((row) => row.steps > 0);
    if (agents.length) {
      const mean = (name) => agents.reduce((sum, row) => sum + row[name], 0) / agents.length;
      stats.push(["steps", mean("steps").toFixed(1), "per question"], ["frames seen", mean("frames").toFixed(1), "per question"]);
    }
    if (errors) stats.push(["no answer", count(errors), Object.keys(numbers.errors).join(", ")]);
    else if (numbers.unparsed) stats.push(["unparsed", percent(numbers.unparsed), "of replies"]);
    if (numbers.seconds_per_question) stats.push(["time", duration(numbers.seconds_per_question), "per question"]);
    const header = el("header.run", {},
      el("div", {}, el("h1", { tabindex: -1 }, name), el("p", {}, about)),
      el("dl", {}, stats.map(([title, value, more]) => el("div", {}, el("dt", {}, title), el("dd", {}, value, el("small", {}, more))))),
      VIEW.run.progress ? VIEW.runProgress(VIEW.run.progress) : null);
    header.numbers = JSON.stringify(numbers);
    return header;
  }

  const hints = () =>
    el("span.hints.grow", {}, el("kbd", {}, "j"), el("kbd.next", {}, "k"), " move ", el("kbd", {}, "↵"), " open ", el("kbd", {}, "/"), " search ", el("kbd", {}, "?"), " legend");
})();
