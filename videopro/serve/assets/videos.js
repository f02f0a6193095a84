// What the server has of a video: its description, its file, and its pictures for the viewer's components.
"use strict";

(() => {
  const { clock } = VIEW;
  const SMALL = 320; // The longer side of pictures in a page, and of one in large.
  const LARGE = 1280;
  const known = new Map();

  const path = (id, rest = "") => `v1/files/${encodeURIComponent(id)}${rest}`;
  const url = (id) => path(id, "/content");

  function frame(id, time, side = SMALL, box = null) {
    const query = new URLSearchParams({ time, side });
    if (box) query.set("box", box.join(","));
    return path(id, `/frame?${query}`);
  }

  // A video as the server describes it; null if it is no longer there.
  async function read(id, { isFresh = false } = {}) {
    if (!known.has(id) || isFresh) {
      try {
        known.set(id, await VIEW.api.get(path(id)));
      } catch (error) {
        if (!(error instanceof VIEW.api.Refused) || ![404, 410].includes(error.status)) throw error;
        known.set(id, null);
      }
    }
    return known.get(id);
  }

  // Pictures as VIEW.cell asks for them: by the time, and by the box if there is one.
  function pictures({ id, videopro: { width, height } }) {
    return {
      width, height,
      cell: (key) => {
        const [time, ...box] = key.split(",").map(Number);
        const part = box.length ? box : null;
        const size = part ? [(box[2] - box[0]) * width, (box[3] - box[1]) * height] : [width, height];
        return { file: frame(id, time, SMALL, part), large: frame(id, time, LARGE, part), sheet: size, left: 0, top: 0, width: size[0], height: size[1] };
      },
    };
  }

  function bytes(number) {
    const [unit, one] = [["GB", 1e9], ["MB", 1e6], ["kB", 1e3]].find(([, least]) => number >= least) ?? ["bytes", 1];
    const amount = number / one;
    return `${amount >= 10 || one === 1 ? Math.round(amount) : amount.toFixed(1)} ${unit}`;
  }

  // Its length, size and subtitles in one line.
  const about = ({ bytes: size, videopro: { duration, width, height, subtitles } }) =>
    [clock(duration), `${width} × ${height}`, bytes(size), subtitles ? "subtitles" : null].filter(Boolean).join(" · ");

  VIEW.videos = { read, pictures, path, url, frame, bytes, about };
})();
