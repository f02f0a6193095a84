// What an answer rests on: each piece plays the video from there.
"use strict";

(() => {
  const { el, clock } = VIEW;
  const NAMES = { frames: "frames", interval: "part of the video", subtitle: "subtitle", text: "text in the frame", box: "found" };

  // When a piece is, in words; "" for one without a time.
  VIEW.when = ({ time, start, end }) => {
    const from = time ?? start;
    if (from === null) return "";
    return end !== null && end > start ? `${clock(start, true)} – ${clock(end, true)}` : clock(from, true);
  };

  // The pieces as a list, the first `most` at once. `link(start, inside)` makes what plays from there; `said`: texts that
  // stand above already.
  VIEW.pieces = (pieces, pictures, link, most = 6, said = []) => {
    const item = (piece) => el("li", {}, one(said.includes(piece.text?.trim()) ? { ...piece, text: null } : piece, pictures, link));
    const list = el("ul.pieces", {}, pieces.slice(0, most).map(item));
    const rest = pieces.slice(most);
    return [list, rest.length ? VIEW.more(`${rest.length} more`, () => rest.map(item), (...items) => list.append(...items)) : null];
  };

  function one(piece, pictures, link) {
    const start = piece.time ?? piece.start;
    const spoken = VIEW.when(piece);
    // A part of the video is shown by its middle: its beginning may still be the scene before.
    const middle = piece.time ?? piece.times?.[Math.floor(piece.times.length / 2)] ?? (piece.start + piece.end) / 2;
    const key = start === null ? null : [middle.toFixed(3), ...(piece.kind === "box" || !piece.box ? [] : piece.box.map((value) => value.toFixed(4)))].join(",");
    const box = piece.kind === "box" && piece.box ? VIEW.box(piece.box, piece.text ?? "") : "";
    const picture = key !== null && pictures ? VIEW.picture(pictures, key, `at ${spoken}`, box) : null;
    picture?.setAttribute("aria-hidden", "true"); // Its time is read below it.
    const inside = [
      picture,
      el("span.when", {}, spoken || NAMES[piece.kind]),
      piece.text ? el("span.text", {}, piece.text) : null,
      el("small", {}, `${NAMES[piece.kind] ?? piece.kind} · ${piece.source}`),
    ];
    const made = start === null ? null : link(start, inside);
    return made instanceof Element ? made : el("div.piece", {}, inside);
  }
})();
