// A question while it is answered: its events in words, how far it is, and how long it takes.
"use strict";

(() => {
  const { el, count, duration } = VIEW;
  const STAGES = {
    planning: "Writing a program", loading: "Loading a model", indexing: "Indexing the video", answering: "Answering",
  };

  const ordinal = (position) => {
    const [ones, tens] = [position % 10, position % 100];
    return `${position}${tens > 10 && tens < 14 ? "th" : ({ 1: "st", 2: "nd", 3: "rd" }[ones] ?? "th")}`;
  };

  const WORDS = {
    queued: ({ position }) => (position > 0 ? `In the queue: ${ordinal(position)}` : "Starting"),
    wait: ({ doing }) => STAGES[doing] ?? doing,
    progress: ({ doing }) => STAGES[doing] ?? doing,
    reply: ({ program }) => (program ? "Running the program" : "Reading the reply"),
    call: ({ name }) => `Running the program: ${name}`,
    step: ({ number, kind }) => `Step ${number}: ${kind}`,
    execution: () => "Checking the program's answer",
  };

  // Follow a question's events. `say` gets each in words, with the event of a progress; `changed` is called when its page
  // has more to show, `ended` once, at its end.
  VIEW.follow = (id, { say, changed = () => null, ended }) => {
    const source = new EventSource(VIEW.api.question(id, "/events"));
    let isOver = false;
    function end() {
      if (isOver) return;
      isOver = true;
      source.close();
      ended();
    }
    source.onmessage = ({ data }) => {
      if (isOver || data === "[DONE]") return;
      const event = JSON.parse(data);
      if (event.type in WORDS) say(WORDS[event.type](event), event.type === "progress" ? event : null);
      if (event.type === "answer" || event.type === "error") end();
      else if (["reply", "call", "execution", "step"].includes(event.type)) changed();
    };
    // The browser connects again by itself, and goes on after the last event; if the server refuses, it does not.
    let asked = null;
    source.onerror = () => {
      // Says that the connection is lost, and waits: once, for the browser tries every few seconds.
      asked ??= VIEW.api.get("v1/models").catch(() => null).then(() => {
        asked = null;
        if (source.readyState === EventSource.CLOSED) end();
      });
    };
    return {
      close: () => {
        isOver = true;
        source.close();
      },
    };
  };

  // A bar that moves evenly where its news come in steps: each step takes as long as the one before it.
  VIEW.progress = (name) => {
    const fill = el("i");
    const node = el("div.progress", { role: "progressbar", "aria-label": name, "aria-valuemin": 0, "aria-valuemax": 100, "aria-valuenow": 0 }, fill);
    let last = performance.now();
    return {
      node,
      show: (done, total) => {
        const now = performance.now();
        const share = total ? Math.min(1, done / total) : 0;
        fill.style.transitionDuration = `${Math.min(5, (now - last) / 1000)}s`;
        fill.style.width = `${100 * share}%`;
        node.setAttribute("aria-valuenow", Math.round(100 * share));
        last = now;
      },
    };
  };

  // What is being done, since when, and a button that stops it. `seconds`: how long it has run already.
  VIEW.status = (id, seconds) => {
    const began = performance.now() - 1000 * seconds;
    const doing = el("span.doing", {}, "Starting");
    const amount = el("span.amount");
    const timer = el("span.amount", { "aria-hidden": "true" });
    const bar = VIEW.progress("Progress");
    bar.node.hidden = true;
    const stop = el("button.plain.stop", {
      type: "button",
      onclick: async () => {
        if (stop.ariaBusy) return;
        stop.ariaBusy = "true"; // A disabled button loses the focus.
        try {
          await VIEW.api.post(VIEW.api.question(id, "/stop"), {});
        } catch (error) {
          doing.textContent = error.message;
          stop.ariaBusy = null;
        }
      },
    }, "Stop");
    const tick = () => (timer.textContent = duration(Math.round((performance.now() - began) / 1000)).replace(/\.00? s/, " s"));
    const clock = setInterval(tick, 1000);
    tick();
    return {
      node: el("div.live", {}, el("i.spin"), el("span", { role: "status" }, doing), bar.node, amount, timer, stop),
      say: (text, progress = null) => {
        if (doing.textContent !== text) doing.textContent = text;
        bar.node.hidden = progress === null;
        amount.textContent = progress ? `${count(progress.done)} of ${count(progress.total)}` : "";
        if (progress) bar.show(progress.done, progress.total);
      },
      close: () => clearInterval(clock),
    };
  };
})();
