// Texts word for word, with a button that copies them: prompts, replies, and the trace itself.
"use strict";

(() => {
  const { el } = VIEW;
  VIEW.details = (title, text, kind = "raw") =>
    text ? el("details", { class: kind }, el("summary", {}, title), copyable(el("pre", {}, text))) : null;

  const copyable = (pre) => el("div.copyable", {}, copyButton(pre), pre);

  function copyButton(pre) {
    const button = el("button.copy", {
      onclick: async () => {
        try {
          await navigator.clipboard.writeText(pre.textContent);
          say("Copied");
        } catch {
          // Browsers give the clipboard to some pages only: those of https, and in most of them those from disk.
          getSelection().selectAllChildren(pre);
          say("Selected: press Ctrl+C or ⌘C");
        }
      },
    }, "Copy");
    let told;
    function say(text) {
      button.textContent = text;
      clearTimeout(told);
      told = setTimeout(() => (button.textContent = "Copy"), 4000);
    }
    button.setAttribute("aria-live", "polite");
    return button;
  }

  // What was asked in a round of programs or of a direct answer.
  VIEW.prompt = (page, round) => {
    if (!round.prompt) return null;
    const { head, text, missing } = round.prompt;
    const name = ["native", "fallback"].includes(round.kind) ? "model" : "planner";
    if (missing) return el("p.note.no-prompt", {}, `The ${name}'s prompt is not available: ${missing}.`);
    const details = VIEW.details(`The ${name}'s prompt`, (head === null ? "" : (page.beginnings ?? VIEW.run.prompts)[head]) + text);
    details.firstChild.after(el("p.note", {}, "As sent, without the frames before it."));
    return details;
  };

  // The trace as JSON, unpacked when it is opened.
  VIEW.json = (page) => {
    const details = el("details.raw.json", {}, el("summary", {}, "The trace as JSON"));
    details.addEventListener("toggle", async () => {
      if (!details.open || details.children.length > 1) return;
      const told = el("p.note", {}, "Reading …");
      details.append(told);
      try {
        told.replaceWith(copyable(el("pre", {}, pretty(await VIEW.readTrace(page)))));
      } catch (error) {
        told.textContent = `Cannot show the trace: ${error.message}.`;
      }
    });
    return details;
  };
  VIEW.readTrace = async (page) => {
    const packed = await VIEW.load(`data/traces/${VIEW.byId.get(page.id).page}.js`);
    if (packed === null) throw new Error(VIEW.news() ? "the server does not answer" : "its file is missing or broken; re-run the command that made this folder");
    return JSON.parse(await unpack(packed));
  };
  VIEW.trace = (name, content) => VIEW._arrived.set(`data/traces/${name}.js`, content);

  async function unpack(text) {
    if (!("DecompressionStream" in window)) throw new Error("this browser is too old to unpack it; see the line in the run's traces.jsonl");
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).text();
  }

  // Indented, but lists of plain values stay on a line: a frame is three numbers.
  function pretty(value, indent = "") {
    const isPlain = (one) => one === null || typeof one !== "object";
    if (isPlain(value)) return JSON.stringify(value);
    const inner = `${indent}  `;
    const isList = Array.isArray(value);
    const entries = isList ? value : Object.entries(value);
    if (!entries.length) return isList ? "[]" : "{}";
    if (isList && value.every((one) => isPlain(one) && typeof one !== "string")) return `[${value.map((one) => JSON.stringify(one)).join(", ")}]`;
    const lines = isList ? value.map((one) => pretty(one, inner)) : entries.map(([name, one]) => `${JSON.stringify(name)}: ${pretty(one, inner)}`);
    const [start, end] = isList ? "[]" : "{}";
    return `${start}\n${lines.map((line) => inner + line).join(",\n")}\n${indent}${end}`;
  }
})();
