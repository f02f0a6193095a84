// One question in detail, while it is answered and afterwards: the viewer's page of a question, drawn anew as it goes on.
"use strict";

VIEW.live = (() => {
  const { el } = VIEW;
  const PAUSE = 250; // Milliseconds between two readings of the page: events may come by the hundred.
  let shown = null; // The question on the page.

  async function show(main, id) {
    const own = (shown = { id, status: el("div.status"), isRunning: false });
    main.className = "question asked-live";
    main.replaceChildren(VIEW.app.bar("Videos", "#/"), el("h1.empty", {}, "Reading the question …"));
    let content;
    try {
      content = await read(own);
    } catch (error) {
      if (shown === own) gone(main, error);
      return;
    }
    if (shown !== own) return;
    document.title = `${content.question} · VideoPro`;
    own.parts = draw(content, false);
    VIEW.patch.remember(own.parts);
    main.replaceChildren(VIEW.app.bar(own.video?.filename ?? "A deleted video", `#/v/${encodeURIComponent(content.file_id)}`), own.status, own.parts);
    document.querySelector(".bar .actions").append(el("button.legend-button.copy-link", {
      type: "button", onclick: (event) => VIEW.app.copy(event.currentTarget, location.href),
    }, "Copy link"));
    updateLegend(own, content);
    const title = own.parts.querySelector("h1");
    title.tabIndex = -1;
    VIEW.app.settle(title);
    if (content.running) follow(own, content.seconds);
  }

  function leave() {
    shown?.follower?.close();
    shown?.bar?.close();
    shown = null;
  }

  // The page's content, with what the viewer's components expect of a run.
  async function read(own) {
    const content = await VIEW.api.get(VIEW.api.question(own.id));
    // Once anew: it may have been deleted since.
    const video = content.file_id ? await VIEW.videos.read(content.file_id, { isFresh: own.video === undefined }) : null;
    own.video = video;
    content.video.source = video ? { url: VIEW.videos.url(video.id) } : null;
    own.pictures = video ? VIEW.videos.pictures(video) : { cells: {}, error: "This video was deleted from the server, so it has no player and no frames." };
    return content;
  }

  function draw(content, isUpdate) {
    VIEW.run = { name: "VideoPro" };
    VIEW.byId = new Map([[content.id, { ...content.row, marks: new Set(content.row.marks) }]]);
    const [top, strip, ...rest] = VIEW.parts(content, shown.pictures, isUpdate);
    const pieces = content.answer_evidence.filter((piece) => piece.cited);
    // Its place is kept while there is no evidence.
    const restsOn = el("section.rests-on", { hidden: !pieces.length },
      pieces.length ? [el("h2", {}, "Evidence", el("small", {}, "click to play")), VIEW.pieces(pieces, shown.pictures, (start, inside) => VIEW.moment(start, inside, "piece"))] : null);
    return el("div.parts", {}, top, strip, restsOn, rest);
  }

  async function refresh(own) {
    const content = await read(own);
    if (shown !== own || (own.isWhole && content.running)) return; // An earlier state may arrive later.
    own.isWhole = !content.running;
    VIEW.patch(own.parts, draw(content, true));
    updateLegend(own, content);
  }

  // The marks that the page has so far.
  function updateLegend(own, content) {
    const hasSteps = content.rounds.some((round) => round.steps.length);
    const hasCalls = content.rounds.some((round) => round.calls.length || round.listing.length);
    if (own.legend === `${hasSteps}${hasCalls}`) return;
    own.legend = `${hasSteps}${hasCalls}`;
    document.querySelector(".bar .legend-place").replaceChildren(...VIEW.legend(VIEW.legend.question(hasSteps, hasCalls, true)));
  }

  const gone = (main, error) =>
    VIEW.app.gone(main, error instanceof VIEW.api.Refused && error.status === 404 ? "This server does not have this question." : error.message);

  // ---- while it is answered ------------------------------------------------------------------------------------

  function follow(own, seconds) {
    own.isRunning = true;
    own.bar = VIEW.status(own.id, seconds);
    own.status.replaceChildren(own.bar.node);
    let planned = null;
    const changed = () => {
      planned ??= setTimeout(async () => {
        planned = null;
        if (shown === own && own.isRunning) await refresh(own).catch(() => null);
      }, PAUSE);
    };
    own.follower = VIEW.follow(own.id, { say: own.bar.say, changed, ended: () => finish(own) });
  }

  async function finish(own) {
    own.isRunning = false;
    try {
      await refresh(own);
      own.bar.close();
      own.status.replaceChildren();
    } catch (error) {
      if (shown === own) gone(document.getElementById("main"), error);
    }
  }

  VIEW.verdict = (page) => {
    if (page.running) return null; // The bar above says what is being done.
    const [state, text] = page.state === "stopped" ? ["unparsed", "Stopped"]
      : page.error || !page.final ? ["error", "No answer"] : ["unscored", "Answered"];
    return el("p.verdict", { class: state }, el(`span.state.${state === "unscored" ? "answered" : state}`, { "aria-hidden": "true" }), text);
  };
  VIEW.readTrace = (page) => VIEW.api.get(VIEW.api.question(page.id, "/trace"));

  return { show, leave, refresh: () => shown && !shown.isRunning && shown.parts ? refresh(shown).catch(() => null) : null };
})();
