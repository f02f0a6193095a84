// Segments of segments as nested bars over the time axis, and a lane for each step.
"use strict";

(() => {
  const { el, clock } = VIEW;
  // The bars, by depth; [] if the round has no tree. `share`: seconds to 0..1 of the axis.
  VIEW.tree = (page, round, share) => {
    if (!round.tree.length) return [];
    const nodes = round.tree.map((node) => ({ ...node, ...round.steps[node.at[0]].segments[node.at[1]] }));
    const most = VIEW.topScore(nodes);
    const depths = [...new Set(nodes.map((node) => node.depth))];
    return depths.map((depth) => {
      const level = nodes.filter((node) => node.depth === depth);
      return el("div.level", {}, evidence(page, share), level.map((node) => bar(node, most, round, share)), captions(level, share));
    });
  };

  function bar(node, most, round, share) {
    const wide = share(node.end) - share(node.start);
    const title = `${node.name}: ${clock(node.start, true)} – ${clock(node.end, true)}, ${node.score === null ? "no score" : `score ${VIEW.score(node.score)}`}${node.explored === null ? "" : `, explored as number ${node.explored}`}${node.text ? `\n${node.text}` : ""}`;
    return el("button.bar-part", {
      class: node.explored === null ? null : "explored", title, "aria-label": title, "data-name": node.name, tabindex: node.explored === null ? -1 : 0,
      style: { left: `${100 * share(node.start)}%`, width: `${100 * wide}%`, "--score": `${node.score === null ? 0 : Math.round((100 * Math.max(0, node.score)) / most)}%` },
      onclick: () => VIEW.goToStep(round, node.at[0]),
    },
      node.explored !== null && wide > 0.03 ? el("i.turn", {}, node.explored) : null,
      wide > 0.07 ? el("span.name", {}, node.name) : null,
      wide > 0.025 ? el("span", {}, node.score === null ? "–" : VIEW.score(node.score)) : null);
  }

  // Beside the parts of a short segment: their scores, for which the bars have no room.
  function captions(level, share) {
    const groups = new Map();
    for (const node of level) groups.set(node.parent, [...(groups.get(node.parent) ?? []), node]);
    const sorted = [...groups.values()].sort((a, b) => a[0].start - b[0].start);
    return sorted.map((parts, i) => {
      const [first, last] = [parts[0], parts[parts.length - 1]];
      if (share(first.end) - share(first.start) > 0.025 || !first.parent) return null;
      const text = `${first.parent}: ${parts.map((part) => VIEW.score(part.score)).join(" ")}`;
      const room = 0.0062 * text.length;
      const next = i + 1 < sorted.length ? share(sorted[i + 1][0].start) : 1;
      const before = i ? share(sorted[i - 1].at(-1).end) : 0;
      if (share(last.end) + room < next) return el("span.caption", { style: { left: `${100 * share(last.end)}%` } }, text);
      if (share(first.start) - room > before) return el("span.caption.before", { style: { right: `${100 * (1 - share(first.start))}%` } }, text);
      return null;
    });
  }

  const evidence = (page, share) => page.evidence.map(([start, end = start]) =>
    el("span.proof", { "aria-hidden": "true", style: { left: `${100 * share(start)}%`, width: `${100 * (share(end) - share(start))}%` } }));

  // The lanes of steps that looked at something: {title, places, segments, times}. Steps of one kind in a row,
  // such as the captions of single frames, share a lane.
  VIEW.stepLanes = (round) => {
    const lanes = [];
    round.steps.forEach((step, place) => {
      if (!step.times.length && !step.segments.length) return;
      const last = lanes[lanes.length - 1];
      const same = last && last.last === place - 1 && last.kind === step.kind && last.model === step.model && last.turn === step.round && !step.segments.length && !last.segments.length;
      if (!same) return lanes.push({ kind: step.kind, model: step.model, turn: step.round, first: place, last: place, segments: step.segments, times: [...step.times], is_reused: step.is_reused });
      last.last = place;
      last.times.push(...step.times);
    });
    return lanes;
  };
})();
