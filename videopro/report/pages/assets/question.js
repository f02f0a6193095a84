// One question on a page: what was asked, the video, every program with what it did, and what it took.
"use strict";

(() => {
  const { el, two, count, duration, STATES, stateMark, meter } = VIEW;
  const KINDS = {
    plan: "Program",
    plan_program: "Multi-step program",
    bug_fix: (before) => `Refined because ${before} failed`,
    native_refinement: () => "Refined because the direct answer was not confident",
    program_refinement: (before) => `Refined because ${before} gave no confident answer`,
    native: "Direct answer",
    fallback: "Fallback: direct answer",
    agent: "Agent steps",
  };
  let around = []; // The list's rows when it was left, to find the next question.

  VIEW.showQuestion = async (id) => {
    const row = VIEW.byId.get(id);
    const main = document.getElementById("main");
    VIEW.leaveList(id);
    around = VIEW.filters.rows();
    VIEW.missing = row ? null : id;
    if (!row) return unknown(main, id, VIEW.news()?.more ? "not read yet" : undefined);
    const content = await VIEW.load(`data/questions/${row.page}.js`);
    if (VIEW.address().id !== id) return; // The user has moved on in the meantime.
    if (!content) return unknown(main, id, VIEW.news() ? "the server does not answer" : "its file is missing or broken; re-run the command that made this folder");
    const pictures = await VIEW.load(`pictures/${content.video.pictures}.js`);
    if (VIEW.address().id !== id) return;
    document.title = `${id} · ${VIEW.run.name}`;
    enter(main, bar(id, content), ...VIEW.parts(content, pictures));
    // Preload the neighbours, so that stepping through questions does not wait.
    for (const step of [1, -1]) {
      const next = around[around.indexOf(row) + step];
      if (next) VIEW.load(`data/questions/${next.page}.js`);
    }
  };

  // Everything about a question, also about one that is still being answered. `isUpdate`: to be drawn over the same page.
  VIEW.parts = (page, pictures, isUpdate = false) => {
    // Steps are numbered through all rounds.
    page.rounds.forEach((round, place) => {
      round.place = place;
      round.before = place ? page.rounds[place - 1].before + page.rounds[place - 1].steps.length : 0;
    });
    const { holder, note } = VIEW.player(page, pictures, isUpdate); // First: times are links if there is a video.
    const strip = VIEW.strip(page, pictures);
    strip.firstChild.after(note);
    return [
      el("div.top", {}, asked(page), holder), strip,
      ...page.rounds.map((round, place) => turn(page, round, place, pictures)),
      ...(page.running ? [] : [VIEW.costs(page)]),
    ];
  };

  function unknown(main, id, why = "this run has no such question") {
    enter(main, bar(id), el("h1.empty", { tabindex: -1 }, `${id}: ${why}.`));
  }

  // The keyboard and screen readers go on at the question.
  function enter(main, ...nodes) {
    main.className = "question";
    main.replaceChildren(...nodes);
    scrollTo(0, 0);
    main.querySelector("h1").focus({ preventScroll: true });
  }

  VIEW.walk = (step) => {
    const at = around.findIndex((row) => row.id === VIEW.address().id);
    const next = around[at + step];
    if (next) VIEW.go(next.id);
  };

  function bar(id, page = null) {
    const at = around.findIndex((row) => row.id === id);
    const link = (step, title, text) => {
      const next = at < 0 ? null : around[at + step];
      return next ? el("a.button", { href: VIEW.hash(next.id), title, "aria-label": title }, text) : el("span.button.off", { "aria-hidden": "true" }, text);
    };
    const key = (name) => el("kbd.hints", { "aria-hidden": "true" }, name);
    return el("nav.bar", {},
      el("a.back", { href: VIEW.hash(null), title: "Back to the list (Escape)" }, "← ", VIEW.run.name), key("esc"),
      el("span.id", {}, id),
      el("span.place", {}, at < 0 ? "" : `${count(at + 1)} of ${count(around.length)}`),
      key("k"), link(-1, "Previous question (k)", "‹"), link(1, "Next question (j)", "›"), key("j"),
      page ? VIEW.legend(VIEW.legend.question(hasSteps(page), page.rounds.some((round) => round.calls.length || round.listing.length))) : null,
      VIEW.theme.picker());
  }

  VIEW.verdict = (page) => el("p.verdict", { class: page.state }, stateMark(page.state), STATES[page.state], changed(page));

  function asked(page) {
    const { final } = page;
    const facts = [
      ...Object.entries(page.groups),
      page.confidence !== null ? ["confidence", two(page.confidence)] : null,
      page.official !== null && page.official !== final?.letter ? ["official parser", page.official] : null,
      page.f1 !== null ? ["token F1", page.exact ? `${two(page.f1)}, exact` : two(page.f1)] : null,
      page.grade ? ["grade", page.grade.robust ?? "not parsed"] : null,
      page.running ? null : ["time", duration(page.cost.seconds)],
      hasSteps(page) ? ["frames seen", count(page.frames)] : null,
    ].filter(Boolean);
    return el("header.asked", {},
      VIEW.verdict(page),
      el("h1", { tabindex: -1 }, page.question),
      page.choices.length ? choices(page) : open(page),
      page.error ? el("div.problem", {}, el("strong", {}, page.error.type), " ", page.error.message) : null,
      page.notes.map((note) => el("p.note", {}, note)),
      el("dl.facts", {}, facts.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, String(value))))),
      page.running ? null : VIEW.json(page));
  }

  const hasSteps = (page) => page.rounds.some((round) => round.steps.length > 0);

  function changed(page) {
    const marks = VIEW.byId.get(page.id).marks;
    if (marks.has("fixed")) return el("span", {}, "fixed by refinement");
    if (marks.has("broken")) return el("span", {}, "broken by refinement");
    return null;
  }

  // The distribution over the letters is shown next to the options; of a refined question, before and after.
  function choices(page) {
    const { first, final, gold } = page;
    const twice = page.refined > 0 && first && Object.keys(first.letters).length > 0;
    return el("ol.choices", {}, page.choices.map((choice, place) => {
      const letter = String.fromCharCode(65 + place);
      const isGold = letter === gold;
      const isGiven = letter === final?.letter;
      const share = final?.letters[letter];
      return el("li", { class: [isGold ? "gold" : "", isGiven ? (page.state === "right" ? "given" : page.state === "unscored" ? "given" : "given bad") : ""].join(" "), "data-letter": letter },
        el("span.letter", {}, letter),
        el("span.text", {}, choice, isGold ? el("span.tag.right", {}, "right answer") : null,
          isGiven ? el("span.tag.chosen", {}, "chosen") : null,
          twice && first.letter === letter && first.letter !== final?.letter ? el("span.tag", {}, "first choice") : null),
        share === undefined ? el("span") : el("span.share", {
          title: twice ? `${two(first.letters[letter] ?? 0)} at first, ${two(share)} in the end` : two(share),
        },
          el("span.bars", {}, twice ? el("i.first", { style: { width: wide(first.letters[letter] ?? 0) } }) : null,
            el("i", { style: { width: wide(share) } }))),
        el("span.number", {}, share === undefined ? "" : two(share)));
    }));
  }

  // What is next to nothing is nothing, and no speck.
  const wide = (share) => `${share < 0.004 ? 0 : 100 * share}%`;

  const open = (page) =>
    el("dl.open", {},
      page.reference !== null ? el("div", {}, el("dt", {}, "Reference"), el("dd", {}, page.reference)) : null,
      page.running ? null : el("div", {}, el("dt", {}, "Answer"), el("dd", {}, page.final?.raw || "none")));

  function turn(page, round, place, pictures) {
    const { execution } = round;
    const isStored = page.selected !== null && place > page.refined && place !== page.selected;
    const hasGone = round.listing.some((line) => line.mark === "-");
    const body = el("section.round", { "data-round": place + 1 },
      el("h2", {},
        page.rounds.length > 1 ? el("span.number", {}, place + 1) : null,
        title(page, round),
        round.mode && round.program !== null ? el("span.tag", {}, round.mode) : null,
        page.rounds.length > 1 && page.selected === place ? el("span.tag.counts", {}, "counts") : null,
        isStored ? el("span.tag", { title: "made for other thresholds; not used for this run's answer" }, "stored only") : null,
        Object.entries(round.notes).filter(([, value]) => value !== "none").map(([name, value]) => el("span.tag.aside", {}, `${name}: ${value}`)),
        hasGone ? el("label.toggle", {}, el("input", {
          type: "checkbox", checked: true, onchange: (event) => body.classList.toggle("final", !event.target.checked),
        }), "show changes") : null,
        outcome(page, round)),
      round.planning ? el("p.planning", {}, round.planning) : null,
      round.faults.map((fault) => el("p.note", {}, `Not well-formed: ${fault}`)),
      round.steps.length ? VIEW.steps(page, round, pictures) : null,
      round.listing.length ? VIEW.program(round, pictures)
        : round.calls.length ? el("div.loose", {}, round.calls.map((call, i) => VIEW.call(call, i + 1, pictures))) : null,
      execution?.error ? failure(execution.error) : null,
      execution?.reasoned ? el("p.reasoned", { title: "the calls that the program's letter depends on, found by replaying it" }, execution.reasoned) : null,
      round.steps.length ? null : el("div.folds", {}, VIEW.prompt(page, round),
        VIEW.details("The model's thoughts", round.thoughts), VIEW.details("The model's reply", round.raw)));
    return body;
  }

  function title(page, round) {
    const known = KINDS[round.kind] ?? round.kind;
    // The round whose program it was shown.
    const before = round.refines ?? round.place - 1;
    return typeof known === "string" ? known : known(before === 0 ? "the first" : `number ${before + 1}`);
  }

  function outcome(page, round) {
    const { execution } = round;
    if (!execution) return page.running ? null : el("span.outcome", {}, "not run");
    // Still at work: what it returned is not known yet.
    if (page.running && execution.status === "empty" && !execution.error) return null;
    if (execution.status === "failed") return el("span.outcome.bad", {}, "failed");
    if (execution.answer === null) return el("span.outcome.bad", {}, "gave no answer");
    return el("span.outcome", {}, distribution(execution), el("strong", {}, execution.answer),
      // An answer that an agent's reply names has no confidence.
      round.kind === "agent" && !execution.confidence ? null : [meter(execution.confidence), el("span", {}, two(execution.confidence))],
      execution.claim !== null ? el("small", { title: `the ${round.kind === "agent" ? "agent" : "program"}'s own claim` }, `claimed ${two(execution.claim)}`) : null);
  }

  // How likely each letter was, as small bars.
  const distribution = (execution) => {
    const letters = Object.entries(execution.letters);
    if (!letters.length) return null;
    return el("span.distribution", { title: letters.map(([letter, share]) => `${letter} ${two(share)}`).join("   ") },
      letters.map(([letter, share]) => el("span", { class: letter === execution.answer ? "given" : null },
        el("i", { style: { height: `${Math.max(4, 100 * share)}%` } }), el("small", {}, letter))));
  };

  const failure = (error) =>
    el("div.problem", {}, el("p", {}, el("strong", {}, error.type), error.line !== null ? ` in line ${error.line}` : "", ": ", error.message),
      VIEW.details("Log shown to the refinement", error.log, "log"));
})();
