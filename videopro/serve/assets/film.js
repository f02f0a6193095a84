// What the server has of a film: its pictures for the viewer's components, and how it is called.
"use strict";

VIEW.files = (() => {
  const SMALL = 320; // The longer side of pictures in a page, and of one in large.
  const LARGE = 1280;
  const about = new Map();

  const path = (id, rest = "") => `v1/files/${encodeURIComponent(id)}${rest}`;
  const url = (id) => path(id, "/content");

  function frame(id, time, side, box = null) {
    const query = new URLSearchParams({ time, side });
    if (box) query.set("box", box.join(","));
    return path(id, `/frame?${query}`);
  }

  // A film as the server describes it; null if it has it no more.
  async function read(id, { isFresh = false } = {}) {
    if (!about.has(id) || isFresh) {
      try {
        about.set(id, await VIEW.api.get(path(id)));
      } catch (error) {
        if (!(error instanceof VIEW.api.Refused) || ![404, 410].includes(error.status)) throw error;
        about.set(id, null);
      }
    }
    return about.get(id);
  }

  // Pictures as VIEW.cell asks for them: by the time, and by the box if there is one.
  function pictures(film) {
    const { width, height } = film.videopro;
    return {
      width, height,
      cell: (key) => {
        const [time, ...box] = key.split(",").map(Number);
        const part = box.length ? box : null;
        const size = part ? [(box[2] - box[0]) * width, (box[3] - box[1]) * height] : [width, height];
        return { file: frame(film.id, time, SMALL, part), large: frame(film.id, time, LARGE, part), sheet: size, left: 0, top: 0, width: size[0], height: size[1] };
      },
    };
  }

  function bytes(number) {
    const [unit, one] = [["GB", 1e9], ["MB", 1e6], ["kB", 1e3]].find(([, least]) => number >= least) ?? ["bytes", 1];
    const amount = number / one;
    return `${amount >= 10 || one === 1 ? Math.round(amount) : amount.toFixed(1)} ${unit}`;
  }

  return { read, pictures, path, url, frame, bytes };
})();
