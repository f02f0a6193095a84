// A question while it is being answered, and its answer: the viewer's page of a question, drawn anew with each event.
"use strict";

VIEW.live = (() => {
  const { el, count, duration, clock } = VIEW;
  const PAUSE = 250; // Milliseconds between two readings of the page: events may come by the hundred.
  const DOING = {
    planning: "Writing a program", loading: "Loading a model", indexing: "Indexing the video", answering: "Answering",
  };
  let shown = null; // The question on the page.

  async function show(main, id) {
    leave();
    const own = (shown = { id, status: el("div.live", { role: "status" }), isRunning: false });
    main.className = "question asked-live";
    main.replaceChildren(VIEW.app.bar(own), el("p.empty", {}, "Reading the question …"));
    let content;
    try {
      content = await read(own);
    } catch (error) {
      if (shown === own) gone(main, own, error);
      return;
    }
    if (shown !== own) return;
    document.title = `${content.question} · VideoPro`;
    own.parts = draw(content, false);
    VIEW.patch.remember(own.parts);
    own.below = el("div.below");
    main.replaceChildren(VIEW.app.bar(own), own.status, own.parts, own.below);
    scrollTo(0, 0);
    settle(own, content);
    if (content.running) follow(own);
  }

  function leave() {
    shown?.source?.close();
    clearInterval(shown?.clock);
    shown = null;
  }

  // The page's content, with what the viewer's components expect of a run.
  async function read(own) {
    const content = await VIEW.api.get(`v1/videopro/questions/${encodeURIComponent(own.id)}`);
    // Once anew: it may have been deleted since.
    const film = content.film ? await VIEW.files.read(content.film, { isFresh: own.film === undefined }) : null;
    own.film = film;
    own.content = content;
    content.video.film = film ? { url: VIEW.files.url(film.id) } : null;
    content.video.key = film?.filename ?? content.video.key;
    own.pictures = film ? VIEW.files.pictures(film) : { cells: {}, error: "This video was deleted from the server, so it has no player and no frames." };
    VIEW.run = { name: "VideoPro" };
    VIEW.byId = new Map([[content.id, { ...content.row, marks: new Set(content.row.marks) }]]);
    return content;
  }

  function draw(content, isUpdate) {
    const [top, strip, ...rest] = VIEW.parts(content, shown.pictures, isUpdate);
    return el("div.parts", {}, top, strip, restsOn(content, shown.pictures), rest);
  }

  const SHOWN = 6; // Pieces of evidence that are shown at once.
  const NAMES = { frames: "frames", interval: "part of the video", subtitle: "subtitle", text: "text in the frame", box: "found" };

  // What the answer rests on: each piece plays the film from there. Its place is kept while there is none.
  function restsOn(content, pictures) {
    const pieces = content.answer_evidence;
    if (!pieces.length) return el("section.rests-on", { hidden: true });
    const list = el("ul", {}, pieces.slice(0, SHOWN).map((piece) => el("li", {}, oneOf(piece, pictures))));
    const rest = pieces.slice(SHOWN);
    const more = el("button.quiet", {
      onclick: () => {
        list.append(...rest.map((piece) => el("li", {}, oneOf(piece, pictures))));
        more.remove();
      },
    }, `${rest.length} more`);
    return el("section.rests-on", {}, el("h2", {}, "Evidence", el("small", {}, "click to play")), list, rest.length ? more : null);
  }

  function oneOf(piece, pictures) {
    const start = piece.time ?? piece.start;
    const spoken = start === null ? "" : piece.end !== null && piece.end > piece.start ? `${clock(piece.start, true)} – ${clock(piece.end, true)}` : clock(start, true);
    // A part of the film is shown by its middle: its beginning may still be the scene before.
    const middle = piece.time ?? piece.times?.[Math.floor(piece.times.length / 2)] ?? (piece.start + piece.end) / 2;
    const key = start === null ? null : [middle.toFixed(3), ...(piece.kind === "box" || !piece.box ? [] : piece.box.map((value) => value.toFixed(4)))].join(",");
    const box = piece.kind === "box" && piece.box ? VIEW.box(piece.box, piece.text ?? "") : "";
    const inside = [
      key !== null && pictures ? VIEW.picture(pictures, key, `at ${spoken}`, box) : null,
      el("span.when", {}, spoken || NAMES[piece.kind]),
      piece.text ? el("span.text", {}, piece.text) : null,
      el("small", {}, `${NAMES[piece.kind] ?? piece.kind} · ${piece.source}`),
    ];
    const link = start === null ? null : VIEW.moment(start, inside, "piece");
    return link instanceof Element ? link : el("div.piece", {}, inside);
  }

  async function refresh(own) {
    const content = await read(own);
    if (shown !== own) return content;
    VIEW.patch(own.parts, draw(content, true));
    settle(own, content);
    return content;
  }

  function gone(main, own, error) {
    const isUnknown = error instanceof VIEW.api.Refused && error.status === 404;
    const text = isUnknown ? "This server does not have this question." : error.message;
    main.replaceChildren(VIEW.app.bar(own), el("div.problem.gone", {}, el("p", {}, text), el("a.plain.button-like", { href: "#/" }, "Ask a question")));
  }

  const again = (own) =>
    el("button.plain.again", { onclick: () => { VIEW.home.prepare(own.film, { question: own.content.question, choices: own.content.choices }); location.hash = "#/"; } }, "Ask again");

  // ---- while it is being answered ----------------------------------------------------------------------------

  function follow(own) {
    own.isRunning = true;
    own.began = performance.now() - 1000 * own.content.seconds;
    say(own, "Starting");
    own.clock = setInterval(() => tick(own), 1000);
    const source = new EventSource(`v1/videopro/questions/${encodeURIComponent(own.id)}/events`);
    own.source = source;
    let planned = null;
    const later = () => {
      planned ??= setTimeout(async () => {
        planned = null;
        if (shown === own && own.isRunning) await refresh(own).catch(() => null);
      }, PAUSE);
    };
    source.onmessage = ({ data }) => {
      if (shown !== own || data === "[DONE]") return;
      const event = JSON.parse(data);
      tell(own, event);
      if (event.type === "answer" || event.type === "error") finish(own);
      else if (["reply", "call", "execution", "step"].includes(event.type)) later();
    };
    // The browser connects again by itself, and goes on after the last event; if the server refuses, it does not.
    source.onerror = async () => {
      if (shown !== own || !own.isRunning) return;
      await VIEW.api.get("v1/models").catch(() => null); // Says that the connection is lost, and waits.
      if (shown === own && own.isRunning && source.readyState === EventSource.CLOSED) finish(own);
    };
  }

  function tell(own, event) {
    if (event.type === "queued") say(own, event.position > 0 ? `In the queue: ${place(event.position)}` : "Starting");
    else if (event.type === "wait") say(own, DOING[event.doing] ?? event.doing);
    else if (event.type === "progress") say(own, DOING[event.doing] ?? event.doing, event);
    else if (event.type === "reply") say(own, event.program ? "Running the program" : "Reading the reply");
    else if (event.type === "call") say(own, `Running the program: ${event.name}`);
    else if (event.type === "step") say(own, `Step ${event.number}: ${event.kind}`);
    else if (event.type === "execution") say(own, "Checking the answer of the program");
  }

  function place(position) {
    const [ones, tens] = [position % 10, position % 100];
    const ending = tens > 10 && tens < 14 ? "th" : ({ 1: "st", 2: "nd", 3: "rd" }[ones] ?? "th");
    return `${position}${ending}`;
  }

  function say(own, text, progress = null) {
    own.status.replaceChildren(el("i.spin"), el("span.doing", {}, text),
      progress ? [el("progress", { max: progress.total || 1, value: progress.done, "aria-label": text }), el("span.amount", {}, `${count(progress.done)} of ${count(progress.total)}`)] : "",
      own.timer ??= el("span.amount", { "aria-hidden": "true" }),
      el("button.plain.stop", { onclick: () => stop(own) }, "Stop"));
    tick(own);
  }

  const tick = (own) => (own.timer.textContent = duration(Math.round((performance.now() - own.began) / 1000)).replace(/\.00? s/, " s"));

  async function stop(own) {
    own.status.querySelector(".stop").disabled = true;
    try {
      await VIEW.api.remove(`v1/videopro/questions/${encodeURIComponent(own.id)}`);
    } catch (error) {
      if (shown === own && own.isRunning) say(own, error.message);
    }
  }

  async function finish(own) {
    own.isRunning = false;
    own.source.close();
    clearInterval(own.clock);
    try {
      // The last event comes before its record is stored.
      for (let tries = 0; tries < 20; tries++) {
        const content = await refresh(own);
        if (!content.running || shown !== own) return;
        await new Promise((resolve) => setTimeout(resolve, 100));
      }
    } catch (error) {
      if (shown === own) gone(document.getElementById("main"), own, error);
    }
  }

  // ---- what follows the answer -------------------------------------------------------------------------------

  function settle(own, content) {
    VIEW.app.updateBar(own, content);
    if (content.running) return;
    own.status.replaceChildren();
    if (own.below.firstChild) return;
    const form = VIEW.form.form(async (body) => {
      location.hash = VIEW.hash(await VIEW.form.begin(content.film, body, own.id));
    }, { label: "Ask a follow-up question", draft: { method: content.method } });
    own.below.replaceChildren(...(content.error ? [again(own)] : []), ...(own.film ? [el("section.ask-on", {}, form.node)] : []));
  }

  VIEW.verdict = (page) => {
    if (page.running) return null; // The bar above says what is being done.
    const [state, text] = page.state === "stopped" ? ["unparsed", "Stopped"]
      : page.error || !page.final ? ["error", "No answer"] : ["unscored", "Answered"];
    return el("p.verdict", { class: state }, el(`span.state.${state === "unscored" ? "answered" : state}`, { "aria-hidden": "true" }), text);
  };
  VIEW.readTrace = (page) => VIEW.api.get(`v1/videopro/questions/${encodeURIComponent(page.id)}/trace`);

  return { show, leave, refresh: () => shown && !shown.isRunning && shown.parts ? refresh(shown).catch(() => null) : null };
})();
