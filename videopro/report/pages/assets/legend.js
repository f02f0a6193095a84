// What marks, letters, lanes and tags mean, and which keys there are: a panel below the bar of each page.
"use strict";

(() => {
  const { el, stateMark, meter } = VIEW;
  const tag = (kind, text) => el(`span.tag${kind ? `.${kind}` : ""}`, {}, text);
  const letter = (kind, text) => el("span.letter", { class: kind }, text);
  const key = (...names) => names.map((name) => el("kbd", {}, name));
  const swatch = (kind, ...inside) => el(`span.swatch.${kind}`, { "aria-hidden": "true" }, inside);

  const STATE_MARKS = [
    [stateMark("right"), "right"],
    [stateMark("wrong"), "wrong"],
    [stateMark("error"), "no answer, or no option recognized in it"],
    [stateMark("unscored"), "not scored: the benchmark does not publish the right option, or no option is right"],
  ];
  const MODES = [
    [tag("", "native"), "answered directly from the whole video"],
    [tag("", "program"), "answered by a multi-step program"],
  ];

  // Each part: [title, rows]; a row is [sample, meaning].
  const list = (hasSteps) => [
    ["Results", STATE_MARKS],
    ["Letters", [
      [letter("right", "B"), "a right answer"],
      [[letter("wrong", "C"), " right: ", letter("gold", "B")], "answered C, but B is right"],
      [letter("", "–"), "no option recognized"],
      [[meter(0.7), " 0.70"], "confidence of the answer, from 0 to 1"],
    ]],
    ["Tags", [
      ...MODES,
      [tag("refined", "refined"), "the program failed or was unsure, and was rewritten"],
      [tag("fixed", "fixed"), "wrong before the refinement, right after it"],
      [tag("broken", "broken"), "right before the refinement, wrong after it"],
      [tag("failed", "failed"), "a program ended with an error"],
      [tag("failed", "fallback"), "no program gave an answer, so the model answered directly"],
      ...(hasSteps ? [
        [tag("", "9 steps · 24 frames"), "an agent's steps, and the distinct frames that they saw"],
        [tag("failed", "unparsed step"), "a step's reply could not be parsed, even after a repair"],
      ] : []),
    ]],
    ["Keys", [
      [key("j", "k"), "next and previous question (or the arrow keys)"],
      [key("↵"), "open the question"],
      [key("/"), "search"],
      [key("?"), "this legend"],
      [key("esc"), "leave the search, close the legend"],
    ]],
  ];

  // `isAsked`: nobody knows the right answer.
  const question = (hasSteps, hasPrograms, isAsked = false) => [
    [isAsked ? "Options" : "Letters", [
      ...(isAsked ? [] : [
        [letter("gold", "B"), "the right option"],
        [letter("bad", "C"), "the chosen option, which is wrong"],
        [letter("", "A"), "other options"],
      ]),
      [swatch("share"), "the model's probability of an option; thin bar: before the refinement"],
    ]],
    ["Timeline", [
      ...(isAsked ? [] : [[swatch("evidence"), "Evidence: where the answer is, according to the benchmark"]]),
      [swatch("cited"), "Cited: what this answer rests on; click to play"],
      ...(hasPrograms ? [
        [swatch("retrieved"), "Retrieved: search results of a program"],
        [swatch("looked", el("i"), el("i"), el("i")), "Looked at: frames that calls used"],
      ] : []),
      ...(hasSteps ? [
        [swatch("step"), "a segment in a step; the colour shows its score"],
        [swatch("looked", el("i"), el("i"), el("i")), "frames that the step saw"],
        [swatch("explored"), "a segment that was split further; the number is the order"],
      ] : []),
    ]],
    ["Frames", [
      [swatch("found"), "a detection; the large frame shows its name and score"],
      [swatch("cut"), "the cropped part"],
      ["click", "opens the frame; a click on its time plays the video from there"],
    ]],
    hasPrograms ? ["Programs", [
      [swatch("added", "+"), "added by the refinement"],
      [swatch("gone", "−"), "removed by the refinement"],
      [swatch("fault"), "the line at which the program failed"],
      [el("code.t-m", {}, "name"), "a module call"],
    ]] : null,
    ["Tags", [
      ...(hasPrograms ? [
        ...MODES,
        [tag("counts", "counts"), "the answer that counts"],
        [tag("", "stored only"), "made for other thresholds; not used for this answer"],
        [tag("", "first choice"), "the option before the refinement"],
        [tag("aside", "name: value"), "the planner's notes on its reply"],
        ["cached", "the result of an earlier, identical call was reused"],
      ] : []),
      ...(hasSteps ? [
        [tag("right", "agreed"), "all agents ended the round with the same option"],
        [tag("failed", "repaired"), "the first reply could not be parsed, but the second could"],
        [tag("broken", "not parsed"), "the reply could not be parsed, even after a repair"],
        [tag("aside", "constrained"), "the server constrained the reply to its schema"],
        [tag("", "reused"), "made for an earlier question about the video"],
      ] : []),
    ]],
    ["Keys", [
      isAsked ? [key("/"), "ask another question"] : [key("j", "k"), "next and previous question of the list (or → ←)"],
      [key("p"), "play or pause the video; in a large frame: play from there"],
      [key("esc"), "go back, or close the open frame or the legend"],
      [key("←", "→"), "in a large frame: the previous and the next frame of the call"],
      [key("?"), "this legend"],
    ]],
  ];

  // The button that opens the legend, and the legend, closed.
  VIEW.legend = (parts) => {
    const panel = el("div.legend", { id: "legend", role: "region", "aria-label": "Legend", tabindex: 0, hidden: true },
      el("div.parts", {}, parts.filter(Boolean).map(([title, rows]) => el("section", {}, el("h2", {}, title),
        el("dl", {}, rows.map(([sample, meaning]) => el("div", {}, el("dt", {}, sample), el("dd", {}, meaning))))))));
    const button = el("button.legend-button", {
      "aria-expanded": "false", "aria-controls": "legend", title: "Marks and keyboard shortcuts (?)",
      onclick: () => VIEW.toggleLegend(),
    }, "Legend");
    return [button, panel];
  };
  VIEW.legend.list = list;
  VIEW.legend.question = question;

  VIEW.toggleLegend = (isOpen = document.getElementById("legend")?.hidden) => {
    const panel = document.getElementById("legend");
    if (!panel || panel.hidden !== isOpen) return false;
    panel.hidden = !isOpen;
    document.querySelector(".legend-button").setAttribute("aria-expanded", String(isOpen));
    return true;
  };

  document.addEventListener("pointerdown", (event) => {
    if (!event.target.closest?.(".legend, .legend-button")) VIEW.toggleLegend(false);
  });
})();
