// Pictures out of sheets, and the video as a strip of them over a time axis.
"use strict";

(() => {
  const { el, clock } = VIEW;

  // Sheets are loaded when a picture of them comes near the window.
  VIEW._near = new IntersectionObserver(
    (seen) => {
      for (const entry of seen) {
        if (!entry.isIntersecting) continue;
        entry.target.style.backgroundImage = entry.target.dataset.sheet;
        VIEW._near.unobserve(entry.target);
      }
    },
    { rootMargin: "600px" },
  );

  // Where the picture of a key is: on a sheet, or wherever `pictures.cell` says; null if it was not made.
  VIEW.cell = (pictures, key) => {
    if (pictures?.cell) return pictures.cell(key);
    const cell = pictures?.cells[key];
    if (!cell) return null;
    const [sheet, left, top, width, height] = cell;
    return { file: `pictures/${pictures.name}-${sheet}.jpg`, sheet: pictures.sheets[sheet], left, top, width, height };
  };

  // Frames that a server makes one by one: as `pictures` of the other functions. `address`: the frame's, by its query.
  VIEW.eachFrame = ({ url, side, width, height, address = (query) => `${url}?${query}` }) => ({
    width, height,
    cell: (key) => {
      const [time, ...box] = key.split(",").map(Number);
      const at = (side) => address(new URLSearchParams({ time, side, ...(box.length && { box: box.join(",") }) }));
      const [wide, tall] = box.length ? [(box[2] - box[0]) * width, (box[3] - box[1]) * height] : [width, height];
      return { file: at(side), large: at(4 * side), sheet: [wide, tall], left: 0, top: 0, width: wide, height: tall };
    },
  });

  // A picture by its key, as wide as its place; null if it was not made. `inside`: what is drawn on it.
  VIEW.picture = (pictures, key, title, ...inside) => {
    const cell = VIEW.cell(pictures, key);
    if (!cell) return null;
    const { file, sheet: [wide, tall], left, top, width, height } = cell;
    const at = (offset, own, all) => (all > own ? `${(100 * offset) / (all - own)}%` : "0");
    const node = el("span.picture", {
      role: "img", "aria-label": title, title,
      style: {
        "aspect-ratio": `${width} / ${height}`,
        "--aspect": width / height,
        "background-size": `${(100 * wide) / width}% ${(100 * tall) / height}%`,
        "background-position": `${at(left, width, wide)} ${at(top, height, tall)}`,
      },
    }, inside);
    node.dataset.sheet = `url("${file}")`;
    if (cell.large) node.dataset.large = `url("${cell.large}")`;
    VIEW._near.observe(node);
    return node;
  };

  // A box over a picture; corners in 0..1 of it.
  VIEW.box = ([x0, y0, x1, y1], title = "", kind = "") =>
    el(`span.box${kind ? `.${kind}` : ""}`, {
      title,
      style: {
        left: `${100 * x0}%`, top: `${100 * y0}%`,
        width: `${100 * (x1 - x0)}%`, height: `${100 * (y1 - y0)}%`,
      },
    });

  VIEW.strip = (page, pictures) => {
    const { video } = page;
    const frame = el("section.video", { "aria-label": "Video" });
    frame.append(el("h2", {}, "Video", el("small", {}, `${video.key}${video.duration ? `  ·  ${clock(video.duration)}` : ""}`)));
    if (!(video.duration > 0)) {
      frame.append(el("p.note.missing", {}, "The run could not open this video."));
      return frame;
    }
    const why = pictures === null ? "No thumbnails were made for this video." : pictures.error;
    if (why) frame.append(el("p.note.missing", {}, why));

    const share = (time) => Math.max(0, Math.min(1, time / video.duration));
    const between = (start, end) => ({ left: `${100 * share(start)}%`, width: `${100 * (share(end) - share(start))}%` });
    const tick = (time) => el("span.tick", { title: `looked at ${clock(time, true)}`, style: { left: `${100 * share(time)}%` } });
    const cited = page.cited ?? [];
    const lanes = [
      ["evidence", "Evidence", page.evidence, []],
      ["cited", "Cited", cited.filter(([start, end]) => end > start), [...new Set(cited.filter(([start, end]) => end === start).map(([start]) => start))]],
    ];
    page.rounds.forEach((round, place) => {
      if (round.steps.length) return;
      const spans = round.calls.flatMap((call) => call.intervals);
      const times = [...new Set(round.calls.flatMap((call) => call.times))];
      const name = page.rounds.length > 1 ? ` ${place + 1}` : "";
      lanes.push(["retrieved", `Retrieved${name}`, spans, []]);
      lanes.push(["looked", `Looked at${name}`, [], times]);
    });

    // Pictures that were not made keep their place.
    const places = video.strip.map((frame) => {
      const at = clock(frame.time, true);
      return VIEW.cell(pictures, frame.key) ? { at, time: frame.time, title: `Frame at ${at}`, notes: [], draw: () => VIEW.picture(pictures, frame.key, `at ${at}`) } : null;
    });
    const strip = places.filter(Boolean);
    // First, and drawn above the others: lanes that are added later leave it where it is.
    const cursor = el("div.cursor", { hidden: true }, el("span"));
    const axis = el("div.axis", {}, el("div.over", {}, el("div.cursor.playhead", { hidden: true }), cursor));
    if (strip.length) axis.append(lane("", "", el("div.thumbs", {}, places.map((frame) => (frame ? VIEW.opener(strip, strip.indexOf(frame), "Video") : el("span.picture.none"))))));
    for (const [kind, title, spans, times] of lanes) {
      if (!spans.length && !times.length) continue;
      axis.append(lane(kind, title,
        spans.map(([start, end = start]) =>
          el("span.span", { title: `${title.toLowerCase()}: ${clock(start, true)} – ${clock(end, true)}`, style: between(start, end) })),
        times.map(tick)));
    }
    for (const round of page.rounds) axis.append(...stepLanes(page, round, share, between, tick));
    axis.append(lane("scale", "", ticks(video.duration).map((time) =>
      el("span", { class: share(time) > 0.94 ? "end" : null, style: { left: `${100 * share(time)}%` } }, clock(time)))));
    const under = (event) => {
      const bounds = cursor.parentElement.getBoundingClientRect();
      return (event.clientX - bounds.left) / bounds.width;
    };
    axis.classList.toggle("plays", VIEW.hasVideo());
    axis.addEventListener("click", (event) => {
      const at = under(event);
      if (at >= 0 && at <= 1 && !event.target.closest("button, a")) VIEW.seek(at * video.duration);
    });
    axis.addEventListener("pointermove", (event) => {
      const at = under(event);
      cursor.hidden = at < 0 || at > 1;
      cursor.style.left = `${100 * at}%`;
      cursor.firstChild.textContent = clock(at * video.duration, true);
    });
    axis.addEventListener("pointerleave", () => (cursor.hidden = true));
    frame.append(axis);
    return frame;
  };

  const LANES = 18; // Lanes of steps that are shown at once.

  // The tree of an agent's segments, and a lane for each of its steps that looked at something.
  function stepLanes(page, round, share, between, tick) {
    const levels = VIEW.tree(page, round, share);
    const abreast = round.layout.some(({ blocks }) => blocks.some((block) => block.columns.length > 0));
    const lanes = VIEW.stepLanes(round).map((one) => {
      const most = VIEW.topScore(one.segments);
      const number = (place) => round.before + place + 1;
      const name = one.last > one.first ? `${number(one.first)}–${number(one.last)}` : `${number(one.first)}`;
      const link = el("button.jump", { title: [`step ${name}: ${one.kind}`, one.model].filter(Boolean).join(", "), onclick: () => VIEW.goToStep(round, one.first) },
        el("span.order", {}, name), one.kind, abreast && one.model ? el("span.model", {}, one.model) : null);
      return lane(one.is_reused ? "step.reused" : "step", link,
        one.segments.map((segment) => el("span.span", {
          title: [segment.name, `${clock(segment.start, true)} – ${clock(segment.end, true)}`, segment.score === null ? "" : VIEW.score(segment.score), segment.text].filter(Boolean).join("  ·  "),
          style: { ...between(segment.start, segment.end), "--score": segment.score === null ? "100%" : `${Math.round(100 * Math.max(0, segment.score / most))}%` },
        })),
        one.times.map(tick));
    });
    const rest = lanes.splice(lanes.length > LANES + 2 ? LANES : lanes.length);
    const more = VIEW.more(`${rest.length} more steps`, () => rest, (...made) => more.closest(".lane").replaceWith(...made));
    return [
      levels.length ? lane("tree", "Segments", levels) : null,
      ...lanes,
      rest.length ? lane("rest", "", more) : null,
    ].filter(Boolean);
  }

  const lane = (kind, title, ...content) =>
    el(`div.lane${kind ? `.${kind}` : ""}`, {}, el("span.title", {}, title), el("div.track", {}, content));

  // Round times, at most eight of them.
  function ticks(seconds) {
    const steps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200];
    const step = steps.find((length) => seconds / length <= 8) ?? 14400;
    return Array.from({ length: Math.floor(seconds / step) + 1 }, (_, i) => i * step);
  }
})();
