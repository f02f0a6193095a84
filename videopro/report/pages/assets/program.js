// A program line by line, and next to each line the calls that it made.
"use strict";

(() => {
  const { el, two, count, duration, clock, meter } = VIEW;

  VIEW.program = (round, pictures) => {
    const byLine = new Map();
    const loose = [];
    round.calls.forEach((call, place) => {
      const node = { call, number: place + 1 };
      if (call.line === null) loose.push(node);
      else byLine.set(call.line, [...(byLine.get(call.line) ?? []), node]);
    });
    const failedAt = round.execution?.error?.line ?? null;
    const isDiff = round.refines !== null;
    const body = el("div.program", { class: isDiff ? "diff" : null });
    for (const line of round.listing) {
      const calls = line.number === null ? [] : (byLine.get(line.number) ?? []);
      const failed = line.number !== null && line.number === failedAt;
      body.append(
        el("div.line", { class: [{ "+": "added", "-": "gone" }[line.mark], calls.length ? "called" : "", failed ? "fault" : ""].join(" "), "data-line": line.number },
          el("div.source", {},
            el("span.number", { "aria-hidden": "true" }, line.number ?? ""),
            isDiff ? mark(line.mark) : null,
            code(line.tokens)),
          el("div.calls", {}, calls.length ? several(calls, pictures) : null)));
    }
    return [
      body,
      loose.length
        ? el("div.loose", {}, el("h4", {}, "Calls without a recorded line"), several(loose, pictures, 8))
        : null,
    ];
  };

  const mark = (sign) => {
    const name = { "+": "added", "-": "removed" }[sign];
    return el("span.mark", name ? { role: "img", "aria-label": name } : {}, sign.replace("-", "−"));
  };

  // Hanging indent: a long line continues below its start.
  function code(tokens) {
    const text = tokens.map(([, part]) => part).join("");
    const indent = text.length - text.trimStart().length;
    return el("code", { style: { "--indent": `${indent + 2}ch` } }, tokens.map(([kind, part]) => (kind ? el(`span.t-${kind}`, {}, part) : part)));
  }

  // The first calls of a line, and the others on request: a loop may make hundreds.
  function several(calls, pictures, shown = 3) {
    const most = calls.length === shown + 1 ? shown + 1 : shown;
    const rest = calls.slice(most);
    const draw = (some) => some.map(({ call, number }) => VIEW.call(call, number, pictures));
    return [draw(calls.slice(0, most)), rest.length ? VIEW.more(`${rest.length} more calls on this line`, () => draw(rest)) : null];
  }

  const HANDLE = /^(Video|Clip)\([\d.\- s]*\)$/;

  VIEW.call = (call, number, pictures) => {
    const plain = call.args.filter(([, value]) => !HANDLE.test(value));
    const args = plain.flatMap(([name, value], i) => [i ? ", " : "", el("span.name", {}, `${name}=`), value]);
    const start = startOf(call);
    const signature = el("span.args", { role: "button", tabindex: 0, "aria-expanded": "false", title: call.args.map(([name, value]) => `${name} = ${value}`).join("\n") },
      el("b", {}, call.fn), "(", args, ")");
    const node = el("div.call", { "data-fn": call.fn },
      el("div.signature", {},
        el("span.order", { title: `call ${number} of this program` }, number),
        signature,
        el("span.end", {}, start === null || !VIEW.hasVideo() ? null : VIEW.moment(start, clock(start, true), "play"),
          el("small", { title: call.cached ? "cached from an earlier call" : null }, call.cached ? "cached" : duration(call.seconds)))),
      result(call),
      VIEW.frames(call, pictures));
    if (call.frames.length === 1 && !call.frames[0].box) node.classList.toggle("single", node.querySelector("figure") !== null);
    // Long arguments and results open on a click or a key; selecting text does not count as a click.
    node.addEventListener("click", (event) => {
      if (!event.target.closest(".signature, .text") || event.target.closest("a") || !getSelection().isCollapsed) return;
      signature.setAttribute("aria-expanded", String(node.classList.toggle("open")));
      if (start !== null) VIEW.seek(start);
    });
    signature.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      signature.click();
    });
    return node;
  };

  // The first time (s) that a call is about; null if it is about none.
  function startOf(call) {
    const times = [...call.times, ...call.said.map((line) => line.start), ...call.intervals.map(([start]) => start)];
    return times.length ? Math.min(...times) : null;
  }

  function result(call) {
    if (call.answer !== null) {
      return el("div.result.answer", {}, el("strong", {}, call.answer || "nothing"), meter(call.confidence), el("span", {}, two(call.confidence)));
    }
    if (/^[A-Z]\w*(Error|Limit|Exception): /.test(call.result)) return el("div.result.text.bad", {}, call.result);
    if (call.said.length) {
      return el("div.result.said", {}, call.said.map((line) =>
        el("p", { class: VIEW.hasVideo() ? "plays" : null, onclick: () => getSelection().isCollapsed && VIEW.seek(line.start, { play: true }) },
          el("time", {}, VIEW.moment(line.start, clock(line.start))), el("span", {}, line.text))));
    }
    return el("div.result.text", {}, unquoted(call.result));
  }

  // Text returned by a module is shown as is, with its line breaks.
  function unquoted(text) {
    const whole = /^(['"])([^]*)(\1|…)$/.exec(text);
    if (!whole || whole[2] === "") return text;
    return whole[2].replace(/\\n/g, "\n").replace(/\\(['"\\])/g, "$1") + (whole[3] === "…" ? "…" : "");
  }

  // The frames that a call or a step looked at; null if there were none.
  VIEW.frames = (call, pictures) => {
    const frames = call.frames.map((frame) => seen(call, frame, pictures)).filter(Boolean);
    const about = call.fn ?? call.kind;
    const shown = frames.map((frame, place) => figure(VIEW.opener(frames, place, about), frame));
    if (!shown.length) {
      return call.looked ? el("p.unseen", {}, call.looked === 1 ? "1 frame, " : `${count(call.looked)} frames, `, call.times.length ? VIEW.moment(call.times[0], spans(call.times)) : "") : null;
    }
    const left = call.looked - call.frames.length;
    return el("div.frames", { class: shown.length > 6 ? "many" : null }, shown, left > 0 ? el("span.left", {}, `+ ${count(left)}`) : null);
  };

  const spans = (times) => [...new Set([times[0], times[times.length - 1]])].map((time) => clock(time, true)).join(" – ");

  // A frame as the call saw it, for VIEW.opener: a crop next to its place in the frame, boxes where something was found.
  function seen(call, frame, pictures) {
    if (!VIEW.cell(pictures, frame.key)) return null;
    const { time } = frame;
    const at = clock(time, true);
    const { width, height } = pictures;
    const draw = (boxes) => (isLarge) => VIEW.picture(pictures, frame.key, `at ${at}`, boxes(isLarge));
    if (frame.cut) {
      const [x0, y0, x1, y1] = frame.cut;
      const box = () => VIEW.box([x0 / width, y0 / height, x1 / width, y1 / height], "cropped part", "cut");
      return { at, time, title: `Frame at ${at}`, notes: ["the cropped part"], draw: draw(box) };
    }
    const [left, top, right, bottom] = frame.box ?? [0, 0, 1, 1];
    const found = call.frames.length === 1 ? call.boxes : [];
    const boxes = (isLarge) => found.map((box) => {
      const [x0, y0, x1, y1] = box.corners;
      const [wide, tall] = [(right - left) * width, (bottom - top) * height];
      const node = VIEW.box([x0 / wide, y0 / tall, x1 / wide, y1 / tall], `${box.label}, score ${two(box.score)}`);
      if (isLarge) node.append(el("span.label", {}, `${box.label} ${two(box.score)}`));
      return node;
    });
    const notes = found.map((box) => `${box.label}, score ${two(box.score)}`);
    if (!frame.box) return { at, time, title: `Frame at ${at}`, notes, draw: draw(boxes) };
    const whole = () => VIEW.picture(pictures, frame.whole, `crop within the frame at ${at}`, VIEW.box(frame.box, "crop", "cut"));
    return {
      at, time, title: `Crop of the frame at ${at}`, notes: ["crop, next to its position in the frame", ...notes], kind: "crop",
      draw: (isLarge) => el("span.pair", {}, whole(), draw(boxes)(isLarge)),
    };
  }

  const figure = (content, { time, at, kind }) => el("figure", { class: kind ?? null }, content, el("figcaption", {}, VIEW.moment(time, at)));
})();
