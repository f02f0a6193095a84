// The first page: a video to ask about, new or on the server, with what was asked about each.
"use strict";

(() => {
  const { el, count } = VIEW;
  const SHOWN = 100; // Videos in the list; a search finds the others.
  let refresh = () => null;

  function show(main) {
    document.title = "VideoPro";
    main.className = "home";
    const field = el("input", { type: "file", id: "file", hidden: true, accept: "video/*,.mkv,.avi,.ts", onchange: () => field.files[0] && upload(field.files[0]) });
    const drop = el("div.drop", {},
      el("p", {}, el("strong", {}, "Drop a video here"), " or"),
      el("button.plain", { type: "button", onclick: () => field.click() }, "Choose a file …"), field);
    const library = el("section.library", { "aria-labelledby": "library" });
    main.replaceChildren(
      VIEW.app.bar(),
      el("div.first", {},
        el("h1", { tabindex: -1 }, "Ask about a video"), VIEW.app.model(),
        el("p.model", {}, "Everyone who can use this server sees all videos and questions, and can stop and delete them."),
        drop, library));
    dropping(main, drop);
    refresh = () => list(library);
    refresh();
    VIEW.app.settle(main.querySelector("h1"));
  }

  async function upload(file) {
    const before = VIEW.talk.sending();
    if (before && !await VIEW.app.confirm(`Cancel the upload of ${before.name}, and upload ${file.name} instead?`, "Upload")) return;
    VIEW.talk.begin(file, (id) => {
      // The view stays, with what is being written there.
      if (location.hash === "#/v/") history.replaceState(null, "", `#/v/${id}`);
      else refresh();
    });
    location.hash = "#/v/";
  }

  // A video may be dropped anywhere on the page.
  function dropping(main, drop) {
    const holds = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
    main.ondragover = (event) => {
      if (!holds(event)) return;
      event.preventDefault();
      drop.classList.add("over-it");
    };
    main.ondragleave = (event) => event.relatedTarget === null && drop.classList.remove("over-it");
    main.ondrop = (event) => {
      drop.classList.remove("over-it");
      if (!holds(event)) return;
      event.preventDefault(); // Elsewhere, too: the browser would leave the page for the video.
      if (main.className === "home") upload(event.dataTransfer.files[0]);
    };
  }

  // ---- what the server has -------------------------------------------------------------------------------------

  async function list(node) {
    let videos, inFolders, questions;
    try {
      [videos, inFolders, questions] = await Promise.all(["v1/files", "v1/videopro/folders", "v1/videopro/questions?limit=1000"].map(VIEW.api.list));
    } catch (error) {
      node.replaceChildren(el("p.problem", {}, error.message));
      return;
    }
    const asked = Map.groupBy(questions, (one) => one.file_id);
    const known = new Set(videos.map((video) => video.filename));
    const sample = VIEW.app.sample();
    const sending = VIEW.talk.sending();
    const entries = [
      ...videos.map((video) => ({ id: video.id, video, name: video.filename, about: VIEW.videos.about(video), asked: asked.get(video.id) ?? [] })),
      ...[...asked].filter(([id]) => !videos.some((video) => video.id === id)).map(([id, rows]) => ({ id, name: "A deleted video", about: "", asked: rows })),
    ].sort((one, other) => lastOf(other) - lastOf(one));
    if (sending) entries.unshift({ id: "", name: sending.name, about: sending.isLost ? "upload interrupted" : "uploading …", asked: [] });
    entries.push(
      ...inFolders.filter(({ path }) => !known.has(path)).map(({ path, bytes }) => ({ path, name: path, about: `${VIEW.videos.bytes(bytes)} · in a folder on the server`, asked: [] })),
      ...(sample && !videos.length ? [{ sample, name: sample, about: "a sample video, made when you open it", asked: [] }] : []));
    const rows = el("ul.videos");
    const draw = (search) => {
      const words = search.toLowerCase();
      const has = (text) => text.toLowerCase().includes(words);
      const found = entries.filter((entry) => has(entry.name) || entry.asked.some(({ question }) => has(question)));
      rows.replaceChildren(...found.slice(0, SHOWN).map((entry) => line(entry, words ? entry.asked.filter(({ question }) => has(question)) : [])));
      if (!found.length) rows.replaceChildren(el("li.none", {}, entries.length ? "Nothing has these words." : "No videos yet. Videos appear here with the questions asked about them."));
      if (found.length > SHOWN) rows.append(el("li.none", {}, `and ${count(found.length - SHOWN)} more; search to find them`));
    };
    const before = node.querySelector("input");
    const hasFocus = before !== null && before === document.activeElement;
    const search = before ?? el("input", { type: "search", "aria-label": "Search videos and questions", placeholder: "Search videos and questions" });
    search.oninput = () => draw(search.value);
    node.replaceChildren(el("h2", { id: "library" }, "Videos and questions"), entries.length > 3 ? search : "", rows);
    if (hasFocus) search.focus();
    draw(search.value);
  }

  const lastOf = ({ video, asked }) => Math.max(video?.created_at ?? 0, ...asked.map(({ time }) => time));

  function line(entry, matches) {
    const { id, video, name, about, asked } = entry;
    const [last] = asked;
    const image = video ? el("img", { src: VIEW.videos.frame(id, { time: video.videopro.duration / 2 }), alt: "", width: 96, height: 54, loading: "lazy" }) : el("span.no-picture");
    const inside = [image, el("span.what", {}, el("span.name", {}, name), el("small", {}, about),
      last ? el("small.last-asked", {}, `${asked.length === 1 ? "1 question" : `${count(asked.length)} questions`} · ${VIEW.app.when(last.time)} · ${last.question}`) : null)];
    const row = id !== undefined
      ? el("a.video-row", { href: `#/v/${encodeURIComponent(id)}`, "data-id": id }, inside)
      : el("button.video-row", { type: "button", "data-name": name, onclick: (event) => open(entry, event.currentTarget) }, inside);
    const remove = !id ? null : el("button.quiet", { type: "button", "aria-label": `Delete ${name}`, onclick: () => VIEW.app.deleteVideo(video ?? { id, filename: name }, asked.length) },
      video && !video.videopro.is_uploaded ? "Remove" : "Delete");
    return el("li", {}, row, remove,
      matches.length ? el("ul.matches", {}, matches.slice(0, 5).map((one) => el("li", {}, el("a", { href: VIEW.hash(one.id) }, one.question)))) : null);
  }

  // A video in a folder gets its id when it is opened; a sample is made first.
  async function open(entry, button) {
    button.disabled = true;
    button.querySelector("small").replaceChildren(el("i.spin"), " Opening …");
    try {
      const { id } = await VIEW.api.post("v1/videopro/videos", { file_id: entry.sample ?? `folder:${entry.path}` });
      location.hash = `#/v/${encodeURIComponent(id)}`;
    } catch (error) {
      button.disabled = false;
      button.querySelector("small").textContent = error.message;
    }
  }

  VIEW.library = { show, refresh: () => refresh() };
})();
