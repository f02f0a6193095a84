// What marks, letters, lanes and tags mean, and which keys there are: a panel below the bar of each page.
"use strict";

(() => {
  const tag = (kind, text) => el(`span.tag${kind ? `.${kind}` : ""}`, {}, text);
  const letter = (kind, text) => el("span.letter", { class: kind }, text);
  const key = (...names) => names.map((name) => el("kbd", {}, name));
  const swatch = (kind, ...inside) => el(`span.swatch.${kind}`, { "aria-hidden": "true" }, inside);

  const STATE_MARKS = [
    [stateMark("right"), "right"],
    [stateMark("wrong"), "wrong"],
    [stateMark("error"), "no answer, or no option could be read in it"],
    [stateMark("unscored"), "not scored: the benchmark keeps the right option secret, or none is right"],
  ];
  const MODES = [
    [tag("", "native"), "answered in one look at the whole video"],
    [tag("", "program"), "answered by a program of several steps"],
  ];

  // Each part: [title, rows]; a row is [sample, meaning].
  const list = (hasSteps) => [
    ["Results", STATE_MARKS],
    ["Letters", [
      [letter("right", "B"), "the answer, which is right"],
      [[letter("wrong", "C"), " right: ", letter("gold", "B")], "answered C, and B is right"],
      [letter("", "–"), "no option could be read"],
      [[meter(0.7), " 0.70"], "confidence of the answer, from 0 to 1"],
    ]],
    ["Tags", [
      ...MODES,
      [tag("refined", "refined"), "the program failed or was unsure, and was written again"],
      [tag("fixed", "set right"), "wrong before the refinement, right after it"],
      [tag("broken", "set wrong"), "right before the refinement, wrong after it"],
      [tag("failed", "failed"), "a program ended with an error"],
      [tag("failed", "fallback"), "no program gave an answer: the model was asked directly"],
      ...(hasSteps ? [
        [tag("", "9 steps · 24 frames"), "an agent's steps, and the different frames that they saw"],
        [tag("failed", "unparsed step"), "the reply of a step could not be read, even after a repair"],
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
        [letter("bad", "C"), "chosen, and wrong"],
        [letter("", "A"), "any other option"],
      ]),
      [swatch("share"), "how likely the model found an option; a thin bar: before the refinement"],
    ]],
    ["Over the video", [
      ...(isAsked ? [] : [[swatch("evidence"), "Evidence: where the benchmark says that the answer is"]]),
      ...(hasPrograms ? [
        [swatch("retrieved"), "Retrieved: what a program searched and got"],
        [swatch("looked", el("i"), el("i"), el("i")), "Looked at: each frame that a call used"],
      ] : []),
      ...(hasSteps ? [
        [swatch("step"), "a segment in a step, stronger in colour with its score"],
        [swatch("looked", el("i"), el("i"), el("i")), "frames that the step saw"],
        [swatch("explored"), "a segment that was split further; the number is its turn"],
      ] : []),
    ]],
    ["Frames", [
      [swatch("found"), "something was found here: its name and score stand over the large picture"],
      [swatch("cut"), "the part that was cut out"],
      ["click", "opens the frame large; a click on its time plays the film from there"],
    ]],
    hasPrograms ? ["Programs", [
      [swatch("added", "+"), "added by the refinement"],
      [swatch("gone", "−"), "removed by the refinement"],
      [swatch("fault"), "the line at which the program failed"],
      [el("code.t-m", {}, "name"), "a function that looks at the video"],
    ]] : null,
    ["Tags", [
      ...(hasPrograms ? [
        ...MODES,
        [tag("counts", "counts"), "the answer that counts"],
        [tag("", "stored only"), "made for other thresholds; it has no say in this answer"],
        [tag("", "chosen at first"), "the option before the refinement"],
        [tag("aside", "name: value"), "what the planner notes about its own reply"],
        ["cached", "the call was made before, and its result was used again"],
      ] : []),
      ...(hasSteps ? [
        [tag("right", "agreed"), "all agents ended the round with one option"],
        [tag("failed", "repaired"), "the first reply could not be read, the second could"],
        [tag("broken", "not parsed"), "the reply could not be read, even after a repair"],
        [tag("aside", "constrained"), "the server held the reply to its schema"],
        [tag("", "reused"), "made for an earlier question about the video"],
      ] : []),
    ]],
    ["Keys", [
      isAsked ? [key("/"), "ask on"] : [key("j", "k"), "next and previous question of the list (or → ←)"],
      [key("p"), "play or pause the film; in a large frame: play from there"],
      [key("esc"), "back to where you came from; closes a frame or the legend first"],
      [key("←", "→"), "in a large frame: the previous and the next frame of the call"],
      [key("?"), "this legend"],
    ]],
  ];

  // The button that opens the legend, and the legend, closed.
  VIEW.legend = (parts) => {
    const panel = el("div.legend", { id: "legend", role: "region", "aria-label": "Legend", hidden: true },
      el("div.parts", {}, parts.filter(Boolean).map(([title, rows]) => el("section", {}, el("h2", {}, title),
        el("dl", {}, rows.map(([sample, meaning]) => el("div", {}, el("dt", {}, sample), el("dd", {}, meaning))))))));
    const button = el("button.legend-button", {
      "aria-expanded": "false", "aria-controls": "legend", title: "What the marks mean, and the keys (?)",
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
