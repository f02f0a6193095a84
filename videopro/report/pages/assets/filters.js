// Which questions the list shows, and in which order; and the panel that chooses them.
"use strict";

VIEW.filters = (() => {
  const { el, percent, two, count, meter } = VIEW;
  const RESULTS = { all: "All", right: "Right", wrong: "Wrong", none: "No answer" };
  const MARKS = {
    refined: "Refined",
    failed: "A program failed",
    fallback: "Fallback answer",
    fixed: "Fixed by refinement",
    broken: "Broken by refinement",
    unparsed_step: "A step could not be parsed",
    repaired: "A reply was repaired",
  };
  const SORTS = {
    order: ["Run order", (row) => row.place],
    sure: ["Most confident", (row) => -(row.confidence ?? -1)],
    unsure: ["Least confident", (row) => row.confidence ?? 2],
    slow: ["Slowest", (row) => -row.seconds],
    frames: ["Most frames seen", (row) => -row.frames],
    steps: ["Most steps", (row) => -row.steps],
    id: ["Name", null],
  };
  const SHOWN = 8; // Values of a group that are listed at once.
  const unfolded = new Set(); // Groups of which all values are listed.
  let given = fresh();
  const order = el("select", { onchange: (event) => change((to) => (to.sort = event.target.value)) },
    Object.entries(SORTS).map(([name, [title]]) => el("option", { value: name }, title)));

  function fresh() {
    return { search: "", result: "all", marks: new Set(), mode: "", groups: new Map(), low: 0, high: 1, sort: "order" };
  }

  function read(query) {
    const words = new URLSearchParams(query);
    given = fresh();
    given.search = words.get("search") ?? "";
    if (Object.hasOwn(RESULTS, words.get("result") ?? "")) given.result = words.get("result");
    if (Object.hasOwn(SORTS, words.get("sort") ?? "")) given.sort = words.get("sort");
    given.mode = words.get("mode") ?? "";
    given.marks = new Set(words.getAll("mark").filter((mark) => Object.hasOwn(MARKS, mark)));
    given.low = share(words.get("low"), 0);
    given.high = share(words.get("high"), 1);
    for (const [key, value] of words) if (key.startsWith("group.")) given.groups.set(key.slice(6), value);
    order.value = given.sort;
  }

  function share(text, otherwise) {
    const number = Number.parseFloat(text);
    return number >= 0 && number <= 1 ? number : otherwise;
  }

  function query() {
    const words = new URLSearchParams();
    if (given.search) words.set("search", given.search);
    if (given.result !== "all") words.set("result", given.result);
    if (given.mode) words.set("mode", given.mode);
    for (const mark of given.marks) words.append("mark", mark);
    for (const [kind, value] of given.groups) words.set(`group.${kind}`, value);
    if (given.low > 0) words.set("low", given.low);
    if (given.high < 1) words.set("high", given.high);
    if (given.sort !== "order") words.set("sort", given.sort);
    return words.toString();
  }

  // The values of a row's group; a group may be called "constructor" or "__proto__".
  const parts = (row, kind) => (Object.hasOwn(row.groups, kind) ? row.groups[kind].split(" | ") : []);
  const tests = {
    search: (row) => row.text.includes(given.search.toLowerCase()),
    result: (row) =>
      given.result === "all" ||
      (given.result === "none" ? row.state === "error" || row.state === "unparsed" : row.state === given.result),
    marks: (row) => [...given.marks].every((mark) => row.marks.has(mark)),
    mode: (row) => !given.mode || row.mode === given.mode,
    confidence: (row) =>
      (given.low <= 0 && given.high >= 1) ||
      (row.confidence !== null && row.confidence >= given.low && row.confidence <= given.high),
  };

  // The rows that pass every test but those named in `but` ("group:family": those of a group).
  function passing(but = "") {
    const asked = Object.entries(tests).filter(([name]) => name !== but).map(([, test]) => test);
    const groups = [...given.groups].filter(([kind]) => but !== `group:${kind}`);
    return VIEW.rows.filter(
      (row) =>
        asked.every((test) => test(row)) &&
        groups.every(([kind, value]) => parts(row, kind).includes(value)),
    );
  }

  function rows() {
    const found = passing();
    const by = SORTS[given.sort][1];
    if (given.sort === "id") return found.sort((a, b) => a.id.localeCompare(b.id, "en", { numeric: true }));
    return given.sort === "order" ? found : found.sort((a, b) => by(a) - by(b) || a.place - b.place);
  }

  const isScored = (row) => row.state !== "unscored";
  function accuracy(some) {
    const scored = some.filter(isScored);
    return scored.length ? scored.filter((row) => row.state === "right").length / scored.length : null;
  }

  // ---- the panel -----------------------------------------------------------------------------------------

  // A choice is a change of the address, so that Back undoes it; typing and sliding add no history.
  function change(act, { typed = false } = {}) {
    act(given);
    const hash = VIEW.hash(null);
    if (!typed) location.hash = hash;
    else {
      history.replaceState(null, "", hash);
      VIEW.refreshList();
    }
  }

  function panel() {
    const any = query().length > 0;
    return [
      el("label.search", {},
        el("span.hidden", {}, "Search"),
        el("input", {
          id: "search", type: "search", placeholder: "Search questions, ids, videos", "aria-keyshortcuts": "/", value: given.search, autocomplete: "off",
          oninput: (event) => change((to) => (to.search = event.target.value), { typed: true }),
        }),
        el("kbd.hints", { "aria-hidden": "true" }, "/")),
      facets(),
      any ? el("button.quiet.clear", { onclick: () => change(() => (given = fresh())) }, "Clear all filters") : null,
    ];
  }

  function facets() {
    return el("div.facets", {}, results(), happened(), confidence(), modes(), groups());
  }

  function results() {
    const rest = passing("result");
    const counts = {
      all: rest.length,
      right: rest.filter((row) => row.state === "right").length,
      wrong: rest.filter((row) => row.state === "wrong").length,
      none: rest.filter((row) => row.state === "error" || row.state === "unparsed").length,
    };
    return el("div.segments", { role: "group", "aria-label": "Result" },
      Object.entries(RESULTS).map(([name, title]) =>
        el(`button.${name}`, {
          "aria-pressed": String(given.result === name), "data-result": name,
          onclick: () => change((to) => (to.result = name)),
        }, title, el("small", {}, count(counts[name])))));
  }

  function happened() {
    const rest = passing("marks");
    const listed = Object.entries(MARKS)
      .map(([mark, title]) => [mark, title, rest.filter((row) => row.marks.has(mark)).length])
      .filter(([mark, , number]) => number > 0 || given.marks.has(mark));
    if (!listed.length) return null;
    return section("Events", listed.map(([mark, title, number]) =>
      el("label.check", {},
        el("input", {
          type: "checkbox", checked: given.marks.has(mark), "data-mark": mark,
          onchange: (event) => change((to) => (event.target.checked ? to.marks.add(mark) : to.marks.delete(mark))),
        }),
        el("span", {}, title), el("small", {}, count(number)))));
  }

  function confidence() {
    const BINS = 24;
    const bins = Array.from({ length: BINS }, () => [0, 0, 0]);
    for (const row of passing("confidence")) {
      if (row.confidence === null) continue;
      const bin = bins[Math.min(BINS - 1, Math.floor(row.confidence * BINS))];
      bin[row.state === "right" ? 0 : row.state === "unscored" ? 2 : 1] += 1;
    }
    const most = Math.max(1, ...bins.map((bin) => bin[0] + bin[1] + bin[2]));
    const range = el("output", {}, `${two(given.low)} – ${two(given.high)}`);
    const histogram = el("div.histogram", { "aria-hidden": "true" }, bins.map((bin, i) => {
      const middle = (i + 0.5) / BINS;
      const title = `${(i / BINS).toFixed(2)}–${((i + 1) / BINS).toFixed(2)}: ${bin[0]} right, ${bin[1]} other`;
      // Square roots: the bin of confident answers holds most questions, and would hide all others.
      const tall = (number) => `${number ? Math.max(3, 100 * Math.sqrt(total / most) * (number / total)) : 0}%`;
      const total = bin[0] + bin[1] + bin[2];
      return el("span", { title, class: middle < given.low || middle > given.high ? "out" : null },
        el("i.unscored", { style: { height: tall(bin[2]) } }),
        el("i.wrong", { style: { height: tall(bin[1]) } }), el("i.right", { style: { height: tall(bin[0]) } }));
    }));
    const slider = (name, other) =>
      el("input", {
        type: "range", min: 0, max: 1, step: 0.01, value: given[name], "aria-label": `${name === "low" ? "Minimum" : "Maximum"} confidence`,
        oninput: (event) => {
          const value = Number(event.target.value);
          const held = name === "low" ? Math.min(value, given[other]) : Math.max(value, given[other]);
          event.target.value = held;
          change((to) => (to[name] = held), { typed: true });
          range.value = `${two(given.low)} – ${two(given.high)}`;
          [...histogram.children].forEach((bar, i) => {
            const middle = (i + 0.5) / BINS;
            bar.classList.toggle("out", middle < given.low || middle > given.high);
          });
        },
      });
    return section(["Confidence", range], histogram, el("div.sliders", {}, slider("low", "high"), slider("high", "low")));
  }

  function modes() {
    const rest = passing("mode");
    const names = [...new Set(VIEW.rows.map((row) => row.mode))].filter(Boolean).sort();
    if (names.length < 2) return null;
    return section("Mode", names.map((name) =>
      value(name, rest.filter((row) => row.mode === name), given.mode === name,
        (to) => (to.mode = given.mode === name ? "" : name))));
  }

  function groups() {
    const kinds = new Set(VIEW.run.breakdowns);
    for (const row of VIEW.rows) for (const kind of Object.keys(row.groups)) kinds.add(kind);
    return [...kinds].map((kind) => {
      const by = new Map();
      for (const row of VIEW.rows) for (const name of parts(row, kind)) by.set(name, []);
      if (by.size < 2) return null;
      for (const row of passing(`group:${kind}`)) for (const name of parts(row, kind)) by.get(name).push(row);
      const names = [...by.keys()].sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
      const made = names.map((name) =>
        value(name, by.get(name), given.groups.get(kind) === name, (to) => {
          if (to.groups.get(kind) === name) to.groups.delete(kind);
          else to.groups.set(kind, name);
        }, kind));
      if (made.length <= SHOWN + 2) return section(kind, made);
      const chosen = names.indexOf(given.groups.get(kind));
      const open = chosen >= SHOWN || unfolded.has(kind);
      const note = ({ target }) => unfolded[target.open ? "add" : "delete"](kind);
      return section(kind, made.slice(0, SHOWN),
        el("details", { open, ontoggle: note }, el("summary", {}, `${made.length - SHOWN} more`), made.slice(SHOWN)));
    });
  }

  // One value of a group, with how many of its questions are right.
  function value(name, some, pressed, act, kind = "mode") {
    const right = accuracy(some);
    return el("button.value", {
      "aria-pressed": String(pressed), "data-kind": kind, "data-value": name, class: some.length ? null : "none",
      onclick: () => change(act), title: right === null ? null : `${percent(right)} right`,
    },
      el("span.name", {}, name), right === null ? el("span") : meter(right), el("small", {}, count(some.length)));
  }

  const section = (title, ...content) =>
    el("section", {}, el("h2", {}, Array.isArray(title) ? [el("span", {}, title[0]), title[1]] : el("span", {}, title)), content);

  const sorter = () => el("label.sort", {}, "Sort ", order);

  return { read, query, rows, accuracy, panel, facets, sorter, change };
})();
