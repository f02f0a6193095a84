// What a question took: each planning and run of a program, each kind of an agent's steps, and what was prepared.
"use strict";

(() => {
  const { el, count, duration } = VIEW;
  VIEW.costs = (page) => {
    const rows = [];
    page.rounds.forEach((round, place) => {
      const name = page.rounds.length > 1 ? ` ${place + 1}` : "";
      if (round.steps.length) return rows.push(...kinds(round));
      rows.push([`Planning${name}`, round.cost]);
      if (round.execution) rows.push([`Running${name}`, round.execution.cost]);
    });
    rows.push(["Total", page.cost, "all"]);
    for (const made of page.prepared) rows.push([prepared(made), made.is_known ? made.cost : null, "aside"]);
    const reused = page.rounds.flatMap((round) => round.steps.filter((step) => step.is_reused));
    if (reused.length) rows.push([`Reused: ${steps(reused.length)} of earlier questions`, sum(reused.map((step) => step.cost)), "aside"]);
    const number = (value) => (value === 0 ? "–" : Number.isInteger(value) ? count(value) : value.toFixed(1));
    const line = ([name, cost, kind]) => el("tr", { class: kind ?? null },
      el("th", { scope: "row" }, name),
      cost === null ? el("td.unknown", { colspan: 6 }, "cost not recorded") : [
        el("td", {}, duration(cost.seconds)),
        [cost.frames, cost.calls, cost.tokens_in, cost.tokens_out].map((value) => el("td", {}, number(value))),
        el("td.stages", {}, Object.entries(cost.stages).map(([stage, seconds]) => `${stage} ${duration(seconds)}`).join("  ·  ")),
      ]);
    return el("section.costs", {},
      el("h2", {}, "Costs"),
      el("div.scroll", { role: "region", "aria-label": "Costs", tabindex: 0 }, el("table", {},
        el("thead", {}, el("tr", {}, el("td"), ["time", "frames", "backbone calls", "tokens in", "tokens out", "time by stage"].map((name) => el("th", { scope: "col" }, name)))),
        el("tbody", {}, rows.map(line)))),
      inFlight(page) ? el("p.note", {}, "A step's time is its wall time, including other questions in flight; “Total” is this question's share of it.") : null,
    page.prepared.length || reused.length ? el("p.note", {}, "Preparations serve all questions that use them, and reused steps were paid by an earlier question; neither is part of “Total”.") : null,
      el("p.versions", {}, `${page.video.path}`, el("br"), Object.entries(page.versions).map(([name, version]) => `${name} ${version}`).join("  ·  ")));
  };

  // Whether the steps took longer than the question's share of the time.
  function inFlight(page) {
    const own = page.rounds.flatMap((round) => round.steps.filter((step) => !step.is_reused));
    return sum(own.map((step) => step.cost)).seconds > 1.01 * page.cost.seconds;
  }

  const steps = (number) => `${count(number)} step${number === 1 ? "" : "s"}`;
  const prepared = (made) => [`Prepared: ${made.kind} `, el("small", {}, made.key)];

  // The steps of a round by kind, in order of their first.
  function kinds(round) {
    const by = new Map();
    for (const step of round.steps) if (!step.is_reused) by.set(step.kind, [...(by.get(step.kind) ?? []), step]);
    return [...by].map(([kind, some]) => {
      const models = [...new Set(some.map((step) => step.model))].filter(Boolean);
      const about = [models.length > 2 ? `${models.length} models` : models.join(", "), some.length > 1 ? `× ${some.length}` : ""];
      return [[kind, el("small", {}, ` ${about.join(" ")}`)], sum(some.map((step) => step.cost))];
    });
  }

  function sum(costs) {
    const whole = { seconds: 0, frames: 0, calls: 0, tokens_in: 0, tokens_out: 0, stages: Object.create(null) };
    for (const cost of costs) {
      for (const name of ["seconds", "frames", "calls", "tokens_in", "tokens_out"]) whole[name] += cost[name];
      for (const [stage, seconds] of Object.entries(cost.stages)) whole.stages[stage] = (whole.stages[stage] ?? 0) + seconds;
    }
    return whole;
  }
})();
