// The steps of an agent, round by round; models that do the same side by side.
"use strict";

(() => {
  const { el, count, duration } = VIEW;
  VIEW.steps = (page, round, pictures) => {
    const context = { page, round, pictures };
    const several = round.layout.length > 1;
    return el("div.steps", {}, round.layout.map(({ round: number, blocks }) => [
      several ? el("h3.turn", {}, number < 0 ? "Final" : `Round ${number + 1}`, votes(context, blocks)) : null,
      blocks.map((block) => (block.columns.length ? abreast(context, block) : block.rows.map(([place]) => step(context, place)))),
    ]));
  };

  // Where models stand side by side: the option that each of them ends the round with.
  function votes({ page, round }, blocks) {
    const last = new Map();
    for (const { columns, rows } of blocks) {
      for (const row of rows) {
        columns.forEach((model, i) => {
          const letter = row[i] === null ? null : round.steps[row[i]].answer;
          if (letter !== null || !last.has(model)) last.set(model, letter);
        });
      }
    }
    const letters = [...last.values()];
    if (letters.every((letter) => letter === null)) return null;
    const agree = new Set(letters).size === 1;
    return el("span.votes", {}, [...last].map(([model, letter]) => el("span", { title: `${model}: ${letter ?? "no option"}` }, option(page, letter))),
      el("span", { class: `tag ${agree ? "right" : "failed"}` }, agree ? "agreed" : "disagreed"));
  }

  const option = (page, letter) =>
    el("span.letter", { class: page.gold === null || letter === null ? null : letter === page.gold ? "gold" : "bad", role: "img", "aria-label": letter === null ? "no option" : `option ${letter}` }, letter ?? "–");

  function abreast(context, { columns, rows }) {
    return el("div.abreast", { role: "table", style: { "--columns": columns.length } },
      el("div.heads", { role: "row" }, columns.map((model) => el("strong", { role: "columnheader" }, model))),
      rows.map((row) => el("div.cells", { role: "row" }, row.map((place) =>
        el("div.cell", { role: "cell" }, place === null ? null : step(context, place, true))))));
  }

  function step(context, place, isCell = false) {
    const { page, round, pictures } = context;
    const { kind, model, args, faults, rejected, cost, ...shown } = round.steps[place];
    const repaired = rejected.length > 0 && !shown.is_unparsed;
    const given = args.filter(([, value]) => value !== "[]" && value !== "");
    const seen = VIEW.frames({ ...shown, kind, boxes: [] }, pictures);
    return el("article.step", { class: [isCell ? "cell" : "", seen ? "" : "blind", shown.looked === 1 ? "single" : "", shown.is_reused ? "reused" : ""].join(" "), id: VIEW.stepId(round, place), "data-step": round.before + place + 1, "data-kind": kind, tabindex: -1 },
      el("header", {},
        el("span.order", {}, round.before + place + 1),
        el("span.args", {}, el("b", {}, kind), model ? null : signature(given)),
        model ? el("span.model", {}, model) : null,
        model && given.length ? el("span.args", {}, signature(given)) : null,
        shown.answer ? option(page, shown.answer) : null,
        shown.is_unparsed ? el("span.tag.broken", {}, "not parsed") : null,
        repaired ? el("span.tag.failed", {}, "repaired") : null,
        shown.is_constrained ? el("span.tag.aside", { title: "the server constrained the reply to its schema" }, "constrained") : null,
        shown.is_reused ? el("span.tag", { title: "made for an earlier question about the video; not part of this question's cost" }, "reused") : null,
        el("small.cost", { title: shown.is_reused ? "original cost" : null }, spent(cost))),
      seen ? el("div.seen", {}, seen) : null,
      el("div.said", {}, VIEW.reply(page, round.steps[place]), folds(page, round.steps[place])));
  }

  VIEW.stepId = (round, place) => `step-${round.place}-${place}`;
  VIEW.goToStep = (round, place) => {
    const node = document.getElementById(VIEW.stepId(round, place));
    node?.scrollIntoView({ block: "center" });
    node?.focus({ preventScroll: true });
  };

  const signature = (args) => ["(", args.flatMap(([name, value], i) => [i ? ", " : "", name ? el("span.name", {}, `${name}=`) : null, value]), ")"];
  VIEW.signature = signature;

  function spent(cost) {
    const tokens = cost.tokens_in || cost.tokens_out ? `${count(Math.round(cost.tokens_in))} → ${count(Math.round(cost.tokens_out))} tokens` : null;
    return [duration(cost.seconds), tokens].filter(Boolean).join("  ·  ");
  }

  // What was sent and written, word for word.
  function folds(page, step) {
    const isRead = step.parsed !== null || step.called.length > 0;
    const result = VIEW.text(page, step.result);
    return el("div.folds", {},
      step.rejected.map((reply, i) => VIEW.details(`Rejected reply: ${step.faults[i]}`, VIEW.text(page, reply), "rejected")),
      step.cut_at !== null ? el("p.note", {}, `The reply was cut off at ${step.cut_at} tokens.`) : null,
      VIEW.details("The model's thoughts", VIEW.text(page, step.thoughts)),
      isRead ? VIEW.details("Reply as written", VIEW.text(page, step.raw)) : null,
      VIEW.repeats(step, result) ? VIEW.details("Result shown to the agent", result) : null,
      VIEW.details("Prompt", VIEW.text(page, step.prompt)));
  }
})();
