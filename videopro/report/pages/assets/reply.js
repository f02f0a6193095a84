// What came back in a step: a parsed reply, words, a tool's result, or why nothing could be read.
"use strict";

(() => {
  const { el, two, clock, meter } = VIEW;
  // A text of the page, from the numbers of its lines.
  VIEW.text = (page, lines) => lines.map((line) => page.texts[line]).join("\n");

  VIEW.reply = (page, step) => {
    const raw = VIEW.text(page, step.raw);
    const result = VIEW.text(page, step.result);
    const isTold = step.parsed === null && step.called.length === 0;
    return [
      step.is_unparsed ? unparsed(step, raw) : isTold ? words(raw) : null,
      // What a model said before it called: the call itself follows as it was read.
      step.called.length ? words(raw.split(/[{`]/)[0].trim()) : null,
      // The segments say the same in full.
      step.parsed !== null && step.segments.length < 2 ? read(step.parsed) : null,
      step.called.map(({ fn, args }) => el("p.calling", {}, "→ ", el("span.args", {}, el("b", {}, fn), VIEW.signature(args)))),
      step.segments.length ? table(step.segments) : null,
      result && result !== raw && !VIEW.repeats(step, result) ? words(result, { kind: /^(error|mistake)/.test(step.kind) ? "bad" : "", label: raw || step.segments.length ? "result " : "" }) : null,
    ];
  };
  // Whether a tool's result is the list of its segments in words.
  VIEW.repeats = (step, result) => step.segments.length > 0 && result.split("\n").length >= step.segments.length && result.length > 80;

  function unparsed(step, raw) {
    return el("div.problem", {},
      el("p", {}, el("strong", {}, "Could not be parsed"), step.rejected.length ? ", even after a repair: " : ": ", step.faults[step.faults.length - 1]),
      raw.trim() ? el("pre", {}, raw) : el("p", {}, "The reply is empty."));
  }

  // A long text begins with its first lines.
  function words(text, { kind = "", label = "" } = {}) {
    if (!text) return null;
    const node = el("p.words", { class: kind }, label ? el("span.label", {}, label) : null, text);
    if (text.length < 480 && text.split("\n").length <= 6) return node;
    node.classList.add("long");
    const button = el("button.quiet", {
      "aria-expanded": "false",
      onclick: () => {
        const isLong = node.classList.toggle("long");
        button.setAttribute("aria-expanded", String(!isLong));
        button.textContent = isLong ? "show all" : "show less";
      },
    }, "show all");
    return [node, button];
  }

  // The answer of an answering call, or an object as its fields.
  function read(parsed) {
    const names = Object.keys(parsed);
    if (names.length !== 2 || !("letter" in parsed) || typeof parsed.confidence !== "number") return fields(parsed);
    return el("p.answered", {}, el("strong", {}, parsed.letter ?? "not parsed"), meter(parsed.confidence), el("span", {}, two(parsed.confidence)));
  }

  function fields(value) {
    return el("dl.fields", {}, Object.entries(value).map(([name, part]) =>
      el("div", {}, el("dt", {}, name), el("dd", {}, shown(part)))));
  }

  function shown(part) {
    if (Array.isArray(part)) {
      return part.some((entry) => entry !== null && typeof entry === "object") ? part.map((entry) => el("div.entry", {}, shown(entry))) : part.map(String).join(", ");
    }
    if (part !== null && typeof part === "object") {
      return el("span.inner", {}, Object.entries(part).map(([name, inner]) => el("span", {}, el("span.name", {}, `${name} `), shown(inner))));
    }
    return part === null ? "–" : typeof part === "number" && !Number.isInteger(part) ? String(Number(part.toFixed(4))) : String(part);
  }

  // ---- segments ----------------------------------------------------------------------------------------------

  const SHOWN = 8; // Segments that are listed at once.

  function table(segments) {
    const has = (name) => segments.some((segment) => segment[name] !== null && segment[name] !== "");
    const most = VIEW.topScore(segments);
    const line = (segment) => el("tr", {},
      has("name") ? el("th", { scope: "row" }, segment.name) : null,
      el("td.when", {}, VIEW.moment(segment.start, `${clock(segment.start, true)} – ${clock(segment.end, true)}`)),
      has("score") ? el("td.score", {}, segment.score === null ? "–" : [meter(segment.score / most), el("span", {}, number(segment.score))]) : null,
      has("text") ? el("td.what", {}, segment.text) : null);
    const body = el("tbody", {}, segments.slice(0, SHOWN).map(line));
    const rest = segments.slice(SHOWN);
    return [el("table.segments-found", {}, body), rest.length ? VIEW.more(`${rest.length} more`, () => rest.map(line), (...lines) => body.append(...lines)) : null];
  }

  // The scale of scores: up to 1, 10 or 100, or to the greatest of them.
  VIEW.topScore = (segments) => {
    const greatest = Math.max(0, ...segments.map((segment) => segment.score ?? 0));
    return [1, 10, 100].find((top) => greatest <= top) ?? greatest;
  };
  const number = (score) => (Number.isInteger(score) ? String(score) : score.toFixed(2));
  VIEW.score = (score) => (score === null ? "no score" : number(score));
})();
