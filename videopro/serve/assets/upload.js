// A film on its way to the server, in parts: a lost connection costs a part, and not the film.
"use strict";

const UPLOAD = (() => {
  const PART = 8 * 2 ** 20;

  // Uploads a file; `show(done, total)` is called with its bytes. Returns the film; raises API.Refused, or AbortError
  // where `signal` ended it.
  async function film(file, show, signal) {
    // Its size comes first, also of a small one: a film that is too large is refused before any of it is sent.
    const whole = { filename: file.name, bytes: file.size, mime_type: file.type || "application/octet-stream", purpose: "user_data" };
    const upload = await API.post("v1/uploads", whole, { signal });
    const at = `v1/uploads/${encodeURIComponent(upload.id)}`;
    try {
      const parts = [];
      for (let start = 0; start < file.size; start += PART) {
        show(start, file.size);
        const data = file.slice(start, start + PART);
        const part = await API.postForm(`${at}/parts`, { data: [data, file.name] }, { signal, again: true });
        parts.push(part.id);
      }
      show(file.size, file.size);
      const made = await API.post(`${at}/complete`, { part_ids: parts }, { signal });
      return made.file;
    } catch (error) {
      API.post(`${at}/cancel`, {}).catch(() => null);
      throw error;
    }
  }

  const subtitles = (id, file) => API.postForm(FILM.path(id, "/subtitles"), { file: [file, file.name] });

  return { film, subtitles };
})();
