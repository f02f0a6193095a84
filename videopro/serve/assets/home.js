// The first page: a film, a question about it, and the questions that were asked before.
"use strict";

VIEW.home = (() => {
  const { el, count, clock } = VIEW;
  let film = null; // The chosen one, as the server describes it.
  let draft = {}; // A question to begin with.
  let refresh = () => null;

  // The film and the question with which the page opens next.
  const prepare = (chosen, question) => {
    film = chosen;
    draft = question ?? {};
  };

  function show(main) {
    document.title = "VideoPro";
    main.className = "home";
    const chooser = el("section.chooser", { "aria-label": "Video" });
    const form = VIEW.form.form(async (body) => {
      if (!film) throw new Error("Choose a video first.");
      location.hash = VIEW.hash(await VIEW.form.begin(film.id ?? film.named, body));
    }, { draft });
    draft = {};
    const before = el("aside.earlier", { "aria-label": "Earlier questions" });
    main.replaceChildren(
      VIEW.app.bar(null),
      el("div.columns-ask", {},
        el("div.asking", {}, el("h1", {}, "Ask about a video"), VIEW.app.model(),
          el("p.model", {}, "Everyone who can use this server sees all videos and questions, and can stop and delete them."),
          chooser, form.node),
        before));
    dropping(main, chooser);
    // What the server has; what was typed stays as it is.
    refresh = () => {
      if (!chooser.querySelector(".uploading")) drawChooser(chooser);
      earlier(before);
    };
    refresh();
  }

  // ---- the film ----------------------------------------------------------------------------------------------

  function drawChooser(node) {
    if (film) return drawChosen(node);
    const field = el("input.hidden", { type: "file", id: "file", accept: "video/*,.mkv,.avi,.ts", onchange: () => field.files[0] && upload(node, field.files[0]) });
    const there = el("div.there");
    node.replaceChildren(
      el("div.drop", {},
        el("p", {}, el("strong", {}, "Drop a video here"), " or"),
        el("button.plain", { type: "button", onclick: () => field.click() }, "Choose a file …"), field),
      there);
    listFilms(node, there);
  }

  async function listFilms(node, there) {
    let films, inFolders;
    try {
      films = await VIEW.api.list("v1/files");
      inFolders = await VIEW.api.list("v1/videopro/folders");
    } catch (error) {
      there.replaceChildren(el("p.problem", {}, error.message));
      return;
    }
    const uploaded = new Set(films.map((one) => one.filename));
    const entries = [
      ...films.map((one) => ({ film: one, name: one.filename, about: aboutFilm(one) })),
      ...inFolders.filter((one) => !uploaded.has(one.path)).map((one) => ({ film: { path: one.path }, name: one.path, about: `${VIEW.files.bytes(one.bytes)} · in a folder on the server` })),
      ...(VIEW.app.sample() && !films.length ? [{ film: { named: VIEW.app.sample(), filename: VIEW.app.sample() }, name: VIEW.app.sample(), about: "a sample video, made with the first question" }] : []),
    ];
    if (!entries.length) return;
    const list = el("ul.films");
    const draw = (search) => {
      const found = entries.filter(({ name }) => name.toLowerCase().includes(search.toLowerCase()));
      list.replaceChildren(...found.slice(0, 200).map((one) => el("li", {},
        el("button.film-row", { type: "button", "data-name": one.name, onclick: () => open(node, one) },
          el("span.name", {}, one.name), el("small", {}, one.about)))));
      if (!found.length) list.replaceChildren(el("li.none", {}, "No video has that name."));
      if (found.length > 200) list.append(el("li.none", {}, `and ${count(found.length - 200)} more; search to find them`));
    };
    const search = entries.length > 6
      ? el("input", { type: "search", "aria-label": "Search videos", placeholder: `Search ${count(entries.length)} videos`, oninput: (event) => draw(event.target.value) }) : null;
    there.replaceChildren(el("h2", {}, "Or choose one on the server"), search ?? "", list);
    draw("");
  }

  function aboutFilm({ bytes, videopro: more }) {
    const parts = more ? [clock(more.duration), `${more.width} × ${more.height}`] : [];
    return [...parts, bytes ? VIEW.files.bytes(bytes) : null, more?.subtitles ? "subtitles" : null].filter(Boolean).join(" · ");
  }

  function choose(node, chosen) {
    film = chosen;
    drawChooser(node);
    document.getElementById("question")?.focus();
  }

  // A film in a folder gets its id when its content was read, which takes a while for a long one.
  async function open(node, entry) {
    if (!entry.film.path) return choose(node, entry.film);
    node.replaceChildren(el("div.picked", {}, el("div.progress", {}, el("i.spin"), el("span", {}, `Opening ${entry.name} …`))));
    try {
      choose(node, await VIEW.api.post("v1/videopro/folders", { path: entry.film.path }));
    } catch (error) {
      drawChooser(node);
      node.prepend(el("p.problem", { role: "alert" }, error.message));
    }
  }

  function drawChosen(node) {
    const about = el("p.about", {}, aboutFilm(film));
    const state = el("div.state-of-index");
    const subtitles = el("input.hidden", { type: "file", accept: ".srt,.vtt,.ass,.ssa,.sub,.json", onchange: () => subtitles.files[0] && addSubtitles(node, subtitles.files[0]) });
    node.replaceChildren(
      el("div.picked", {},
        film.id && film.videopro ? el("img", { src: VIEW.files.frame(film.id, { time: film.videopro.duration / 2, side: 320 }), alt: "", width: 128, height: 72 }) : el("span.no-picture", { "aria-hidden": "true" }),
        el("div", {}, el("strong", {}, film.filename), about,
          film.id ? el("div.more-about", {}, state, subtitles,
            el("button.quiet", { type: "button", onclick: () => subtitles.click() }, film.videopro?.subtitles ? "Replace subtitles" : "Add subtitles")) : null),
        el("button.plain", { type: "button", onclick: () => { film = null; drawChooser(node); node.querySelector("button").focus(); } }, "Change")),
      VIEW.app.scope(film) ?? "");
    if (film.id) drawIndex(state);
  }

  async function addSubtitles(node, file) {
    try {
      await VIEW.api.upload(VIEW.files.path(film.id, "/subtitles"), file);
      film = await VIEW.files.read(film.id, { isFresh: true });
      drawChooser(node);
    } catch (error) {
      node.append(el("p.problem", { role: "alert" }, error.message));
    }
  }

  // Programs search an index of the film; it is made with the first question that needs it, or before.
  function drawIndex(node) {
    const state = film.videopro?.index ?? "none";
    if (state === "ready") return node.replaceChildren(el("span", {}, "indexed"));
    node.replaceChildren(el("button.quiet", {
      type: "button", title: "Searching the video needs an index. Otherwise the first question that searches builds it.",
      onclick: () => index(node),
    }, state === "running" ? "Show indexing progress" : "Index it now"));
  }

  async function index(node) {
    const own = film;
    const bar = progress("Indexing");
    node.replaceChildren(bar.node);
    try {
      for await (const event of VIEW.api.events(VIEW.files.path(own.id, "/index"), { method: "POST" })) {
        if (event.type === "progress") bar.show(event.done, event.total, `${event.done} of ${event.total}`);
        if (event.type === "indexed" && event.error) throw new Error(event.error.message);
      }
      const fresh = await VIEW.files.read(own.id, { isFresh: true });
      if (film === own && fresh) film = fresh;
      drawIndex(node);
    } catch (error) {
      node.replaceChildren(el("p.problem", { role: "alert" }, error.message));
    }
  }

  // A bar with a name, and a text beside it.
  function progress(name) {
    const fill = el("progress", { max: 1, value: 0, "aria-label": name });
    const text = el("span", {}, "");
    return {
      node: el("div.progress", {}, el("span", {}, name), fill, text),
      show: (done, total, more) => {
        fill.value = total ? done / total : 0;
        text.textContent = more;
      },
    };
  }

  async function upload(node, file) {
    const bar = progress("Uploading");
    const stop = new AbortController();
    node.replaceChildren(el("div.picked.uploading", {},
      el("div", {}, el("strong", {}, file.name), bar.node),
      el("button.plain", { type: "button", onclick: () => stop.abort() }, "Cancel")));
    try {
      // A browser sends all of a film before it reads that it is too large.
      if (file.size > VIEW.app.largestFilm()) throw new Error(`the limit of this server is ${VIEW.files.bytes(VIEW.app.largestFilm())}`);
      const made = await VIEW.api.upload("v1/files", file, (done, total) => bar.show(done, total, `${VIEW.files.bytes(done)} of ${VIEW.files.bytes(total)}`), stop.signal);
      choose(node, made);
    } catch (error) {
      drawChooser(node);
      if (error.name !== "AbortError") node.prepend(el("p.problem", { role: "alert" }, `${file.name}: ${error.message}`));
    }
  }

  // A film may be dropped anywhere on the page.
  function dropping(main, chooser) {
    const holds = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
    main.ondragover = (event) => {
      if (!holds(event)) return;
      event.preventDefault();
      chooser.classList.add("over-it");
    };
    main.ondragleave = (event) => event.relatedTarget === null && chooser.classList.remove("over-it");
    main.ondrop = (event) => {
      chooser.classList.remove("over-it");
      if (!holds(event)) return;
      event.preventDefault(); // Elsewhere, too: the browser would leave the page for the film.
      if (main.className !== "home") return;
      const [file] = event.dataTransfer.files;
      film = null;
      upload(chooser, file);
    };
  }

  // ---- earlier questions -------------------------------------------------------------------------------------

  async function earlier(node) {
    const list = el("ul");
    node.replaceChildren(el("h2", {}, "Earlier questions"), list);
    try {
        const [questions, films] = await Promise.all([VIEW.api.list("v1/videopro/questions"), VIEW.api.list("v1/files")]);
        const names = new Map(films.map((one) => [one.id, one.filename]));
        list.replaceChildren(...questions.map((one) => line(one, names.get(one.film) ?? "a deleted video")));
        if (!questions.length) list.replaceChildren(el("li.none", {}, "None yet. Questions asked on this server appear here, with their evidence."));
    } catch (error) {
      list.replaceChildren(el("li.problem", {}, error.message));
    }
  }

  const ENDS = { waiting: "in the queue", running: "being answered", stopped: "stopped", failed: "no answer" };

  function line(one, filmName) {
    const { answer } = one;
    const text = ENDS[one.state] ?? (answer?.choice ?? answer?.text ?? "no answer");
    const isOpen = one.state === "waiting" || one.state === "running";
    return el("li", {}, el("a.asked-before", { href: VIEW.hash(one.id), "data-id": one.id },
      el("b", {}, one.question),
      el("span.its-answer", { class: one.state in ENDS ? one.state : null }, isOpen ? el("i.spin") : null, answer?.letter && !(one.state in ENDS) ? el("span.letter", {}, answer.letter) : null, el("span", {}, text)),
      el("small", {}, `${filmName} · ${when(one.time)}`)));
  }

  function when(seconds) {
    const date = new Date(1000 * seconds);
    const isToday = date.toDateString() === new Date().toDateString();
    return date.toLocaleString([], isToday ? { timeStyle: "short" } : { dateStyle: "medium", timeStyle: "short" });
  }

  return { show, prepare, refresh: () => refresh() };
})();
