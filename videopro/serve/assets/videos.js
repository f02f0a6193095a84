// What the server has of a video: its description, its file, and its pictures for the viewer's components.
"use strict";

(() => {
  const { clock } = VIEW;
  const SIDE = 320; // The longer side of pictures in a page.
  const known = new Map();

  const path = (id, rest = "") => `v1/files/${encodeURIComponent(id)}${rest}`;
  const url = (id) => path(id, "/content");

  const frame = (id, query) => path(id, `/frame?${new URLSearchParams(query)}`);

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
  const pictures = (video) => VIEW.eachFrame({ ...video.videopro, side: SIDE, address: (query) => frame(video.id, query) });

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
