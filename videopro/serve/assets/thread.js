// The conversation about a video: what was asked, the answers side by side, and the form of the next question.
"use strict";

(() => {
  const { el, count, duration, two, meter } = VIEW;
  const FOLLOWED = 3; // Questions that are followed at once: a browser keeps six connections to a server.
  const ENDS = { failed: "No answer", stopped: "Stopped" };
  let shown = null;

  // `id`: of the video; null: the one that is being uploaded.
  async function show(main, id) {
    const own = (shown = { cards: new Map(), turns: new Map(), methods: [], isAlone: false });
    main.className = "thread";
    main.replaceChildren(VIEW.app.bar("Videos", "#/"), el("h1.empty", {}, "Reading the conversation …"));
    try {
      own.talk = await VIEW.talk.of(id);
    } catch (error) {
      if (shown === own) VIEW.app.gone(main, error.message);
      return;
    }
    if (shown !== own) return;
    if (!own.talk || (!own.talk.video && !own.talk.sending && !own.talk.rows.length)) return VIEW.app.gone(main, id === null ? "The upload ended when the page was left. Choose the video again." : "This server does not have this video.");
    own.side = el("aside.side", { "aria-label": "Video" });
    own.list = el("div.turns");
    own.news = el("p.hidden", { role: "status" });
    own.context = el("p.note.context");
    own.known = el("section.known", { hidden: true });
    own.form = VIEW.form((body) => ask(own, body), () => own.talk.id);
    own.composer = el("section.composer", { "aria-label": "Ask" }, own.known, own.form.node, own.context);
    main.replaceChildren(VIEW.app.bar("Videos", "#/"), el("div.talk", {}, own.side, el("div.conversation", {}, own.list, own.news, own.composer)));
    own.talk.changed = () => shown === own && draw(own);
    drawSide(own);
    draw(own);
    readKnown(own);
    readMethods(own);
    VIEW.app.settle(own.composer.hidden ? main.querySelector("h1") : own.form.field);
    if (own.talk.rows.length) own.composer.scrollIntoView({ block: "end" });
  }

  // What was answered can be read while the model's server is down, and cannot say what it offers.
  async function readMethods(own) {
    const methods = await VIEW.form.methods().catch(() => null);
    if (!methods || shown !== own) return;
    own.methods = methods.data;
    draw(own);
  }

  // Others ask and delete, too.
  async function refresh() {
    const own = shown;
    if (!own?.talk || own.talk.id === null) return;
    const video = await VIEW.videos.read(own.talk.id, { isFresh: true }).catch(() => own.talk.video);
    if (shown !== own) return;
    if (!video !== !own.talk.video) {
      own.talk.video = video;
      drawSide(own);
    }
    await own.talk.refresh().catch(() => null);
  }

  function leave() {
    for (const card of shown?.cards.values() ?? []) card.close();
    if (shown?.talk) shown.talk.changed = () => null;
    shown = null;
  }

  async function ask(own, body) {
    try {
      await own.talk.ask(body, own.isAlone);
    } catch (error) {
      throw error.code === "unknown_question" ? new Error("This model answers the questions above only. Choose one of them.") : error;
    }
    own.list.lastElementChild?.scrollIntoView({ block: "nearest" });
  }

  // ---- the video -----------------------------------------------------------------------------------------------

  function drawSide(own) {
    const { video, sending } = own.talk;
    own.isUploading = Boolean(sending);
    own.composer.hidden = !sending && (!video || Boolean(video.videopro.problem));
    const title = el("h1", { tabindex: -1 }, video?.filename ?? sending?.name ?? "A deleted video");
    document.title = `${title.textContent} · VideoPro`;
    if (sending) {
      own.sent = el("p.about");
      own.resend = el("button.plain", { type: "button", onclick: () => { sending.send(); draw(own); VIEW.app.settle(own.form.field); } }, "Try again");
      own.side.replaceChildren(title, sending.bar.node, own.sent,
        el("div.buttons", {}, own.resend, el("button.plain", { type: "button", onclick: () => { sending.cancel(); VIEW.app.replace("#/"); } }, "Cancel")));
      return;
    }
    if (!video) return own.side.replaceChildren(title, el("p.note.missing", {}, "This video was deleted from the server. Its questions and answers are kept."));
    own.pictures = VIEW.videos.pictures(video);
    const { holder, note } = VIEW.player({ id: video.id, video: { source: { url: VIEW.videos.url(video.id) }, duration: video.videopro.duration, path: video.filename } }, null);
    const index = el("div.state-of-index");
    const subtitles = el("input", { type: "file", hidden: true, accept: ".srt,.vtt,.ass,.ssa,.sub,.json", onchange: () => { const [file] = subtitles.files; if (file) addSubtitles(own, file); subtitles.value = ""; } });
    own.side.replaceChildren(holder ?? "", note, title, el("p.about", {}, VIEW.videos.about(video)), VIEW.app.scope(video) ?? "",
      el("div.more-about", {}, index, subtitles,
        el("button.quiet.subtitles", { type: "button", onclick: () => subtitles.click() }, video.videopro.subtitles ? "Replace subtitles" : "Add subtitles"),
        el("button.quiet", { type: "button", onclick: () => VIEW.app.deleteVideo(video, own.talk.rows.length) }, video.videopro.is_uploaded ? "Delete the video" : "Remove from the list")));
    drawIndex(own, index);
  }

  async function addSubtitles(own, file) {
    try {
      await VIEW.api.upload(VIEW.videos.path(own.talk.id, "/subtitles"), file);
      own.talk.video = await VIEW.videos.read(own.talk.id, { isFresh: true });
      if (shown !== own) return;
      drawSide(own);
      own.side.querySelector(".subtitles").focus();
    } catch (error) {
      own.side.append(el("p.problem", { role: "alert" }, error.message));
    }
  }

  // Programs search an index of the video, which the first question that searches builds, or somebody who asks for it.
  function drawIndex(own, node) {
    const state = own.talk.video.videopro.index;
    if (state === "ready") return node.replaceChildren("Indexed");
    const build = async () => {
      const bar = VIEW.progress("Indexing");
      const amount = el("span", {}, "Indexing");
      node.replaceChildren(bar.node, amount);
      try {
        await own.talk.index((done, total) => {
          bar.show(done, total);
          amount.textContent = `Indexing: ${count(done)} of ${count(total)}`;
        });
        drawIndex(own, node);
      } catch (error) {
        node.replaceChildren(el("p.problem", { role: "alert" }, error.message));
      }
    };
    node.replaceChildren(el("button.quiet", {
      type: "button", title: "Searching the video needs an index. Otherwise the first question that searches builds it.", onclick: build,
    }, state === "running" ? "Show indexing progress" : "Index it now"));
  }

  // ---- the conversation ----------------------------------------------------------------------------------------

  const keyOf = ({ question, choices }) => JSON.stringify([question, choices]);

  function draw(own) {
    if (own.isUploading !== Boolean(own.talk.sending)) {
      if (!own.talk.sending && !own.talk.video) return;
      drawSide(own);
      readKnown(own);
    }
    if (own.talk.sending) {
      const { text, problem, isLost } = own.talk.sending;
      if (problem && !isLost) return VIEW.app.gone(document.getElementById("main"), problem);
      own.sent.textContent = problem || text;
      own.resend.hidden = !problem;
    }
    // The same question again is answered beside the first.
    for (const [id, card] of own.cards) {
      if (own.talk.rows.some((row) => row.id === id)) continue;
      card.close();
      own.cards.delete(id);
    }
    fill(own.list, [...[...Map.groupBy(own.talk.rows, keyOf)].map(([key, rows]) => turn(own, key, rows)), ...own.talk.queue.map((item) => waiting(own, item))]);
    follow(own);
    drawContext(own);
  }

  // What has not changed stays where it is, with the reader's focus; only what is new is announced.
  function fill(parent, nodes) {
    for (const node of [...parent.childNodes]) if (!nodes.includes(node)) node.remove();
    nodes.forEach((node, place) => node !== parent.childNodes[place] && parent.insertBefore(node, parent.childNodes[place]));
  }

  function turn(own, key, rows) {
    if (!own.turns.has(key)) {
      const [{ question, choices, time }] = rows;
      const answers = el("div.answers");
      const title = el("h2", { dir: "auto" }, question);
      const node = el("article.turn", { "aria-label": question },
        el("header.asked-here", {}, title, el("small", {}, VIEW.app.when(time)),
          choices.length ? el("ol.asked-choices", {}, choices.map((text, place) => el("li", {}, el("span.letter", { "aria-hidden": "true" }, VIEW.form.LETTERS[place]), el("span", {}, text)))) : null),
        answers);
      own.turns.set(key, { node, answers });
    }
    const { node, answers } = own.turns.get(key);
    const hasFocus = answers.contains(document.activeElement);
    fill(answers, rows.map((row) => cardOf(own, row, rows)));
    // The focus stays with the answers when the button that was pressed is gone.
    if (hasFocus && !answers.contains(document.activeElement)) answers.lastChild.querySelector(".stop, footer a").focus();
    return node;
  }

  function cardOf(own, row, rows) {
    const isOpen = own.talk.isOpen(row);
    // Other ways to answer it are offered below the last answer only.
    const text = JSON.stringify(isOpen ? row.id : [row, row === rows.at(-1) && [rows.length, own.methods.length]]);
    const known = own.cards.get(row.id);
    if (known?.text === text) return known.node;
    known?.close();
    const status = isOpen ? VIEW.status(row.id, row.seconds) : null;
    const node = isOpen ? el("section.answer", {}, el("header", {}, el("strong", {}, row.method)), status.node) : answered(own, row, rows);
    const card = { id: row.id, text, node, status, follower: null, close: () => { card.follower?.close(); status?.close(); } };
    own.cards.set(row.id, card);
    return node;
  }

  function answered(own, row, rows) {
    const { answer, error } = row;
    const details = VIEW.hash(row.id);
    // A click with a key, as for a new window, opens the answer's own page.
    const link = (start, inside) => el("a.moment.piece", {
      href: VIEW.hash(row.id, undefined, start), title: `Play from ${VIEW.clock(start, true)}`,
      onclick: (event) => {
        if (!event.ctrlKey && !event.metaKey && !event.shiftKey && !event.altKey && VIEW.seek(start, { play: true })) event.preventDefault();
      },
    }, inside);
    const cited = row.evidence.filter((piece) => piece.cited);
    const [shownPieces, more] = VIEW.pieces(cited, own.pictures, link, rows.length > 1 ? 2 : 4, [answer?.letter, answer?.text.trim()]);
    return el("section.answer", { class: row.state },
      el("header", {}, el("strong", {}, row.method),
        answer && answer.confidence !== null ? el("span.sure", { title: "confidence, from 0 to 1" }, meter(answer.confidence), `confidence ${two(answer.confidence)}`) : null,
        answer ? el("span.took", { title: `${count(row.cost.tokens_in)} tokens read, ${count(row.cost.tokens_out)} written` }, `${duration(row.seconds)} · ${row.cost.calls === 1 ? "1 call" : `${count(row.cost.calls)} calls`}`) : null),
      answer
        ? el("p.given", {}, answer.letter ? el("span.letter", {}, answer.letter) : null, el("span", { dir: "auto" }, answer.choice ?? (answer.text.trim() || "No option recognized")))
        : el("p.problem", {}, el("strong", {}, ENDS[row.state]), error ? `: ${error.message}` : ""),
      (answer?.notes ?? []).map((note) => el("p.note", {}, note)),
      cited.length ? shownPieces : null, more,
      el("footer", {},
        el("a.button-like", { href: details }, "Details"),
        el("button.quiet", { type: "button", onclick: (event) => VIEW.app.copy(event.currentTarget, textOf(row)) }, "Copy"),
        el("button.quiet", { type: "button", onclick: () => remove(own, row) }, "Delete"),
        row === rows.at(-1) ? again(own, row, rows) : null));
  }

  // The same question once more, with another method unless the reader chooses the same.
  function again(own, row, rows) {
    if (!own.talk.video || !own.methods.length) return null;
    const tried = new Set(rows.map((one) => one.method));
    const usable = own.methods.filter((method) => row.choices.length || method.open_questions !== false);
    const first = row.answer ? (usable.find((method) => !tried.has(method.id)) ?? usable[0]) : (usable.find((method) => method.id === row.method) ?? usable[0]);
    const field = el("select", { "aria-label": "Method for asking again" }, usable.map(({ id, about }) => el("option", { value: id, selected: id === first.id, title: about }, id)));
    const problem = el("span.problem", { role: "alert", hidden: true });
    const button = el("button.quiet", {
      type: "button",
      onclick: async () => {
        if (button.ariaBusy) return;
        button.ariaBusy = "true"; // A disabled button loses the focus.
        const before = own.talk.answered().filter((one) => one.time < rows[0].time).at(-1);
        try {
          await own.talk.ask({ question: row.question, choices: row.choices, method: field.value, follows: before && VIEW.app.converses() ? before.id : null });
        } catch (error) {
          problem.textContent = error.message;
          problem.hidden = false;
        }
        button.ariaBusy = null;
      },
    }, "Ask again with");
    return el("span.again", {}, button, field, problem);
  }

  const answerOf = ({ answer }) => [answer.letter, answer.choice ?? answer.text.trim()].filter(Boolean).join(". ");

  function textOf(row) {
    const { id, question, choices, method, answer, error, evidence } = row;
    const { LETTERS } = VIEW.form;
    const given = answer ? answerOf(row) : error?.message ?? "no answer";
    return [
      `Question: ${question}`,
      ...choices.map((text, place) => `${LETTERS[place]}. ${text}`),
      `Answer (${[method, answer && answer.confidence !== null ? `confidence ${two(answer.confidence)}` : ""].filter(Boolean).join(", ")}): ${given}`,
      ...evidence.filter((piece) => piece.cited).map((piece) => `Evidence: ${[VIEW.when(piece), piece.text].filter(Boolean).join(" ")}`),
      location.href.replace(/#.*/, "") + VIEW.hash(id),
    ].join("\n");
  }

  async function remove(own, row) {
    if (!await VIEW.app.confirm("Delete this question and its answer?", "Delete", () => VIEW.api.remove(VIEW.api.question(row.id)))) return;
    await own.talk.refresh();
    VIEW.app.settle(own.form.field);
  }

  function waiting(own, item) {
    const { body, problem } = item;
    return el("article.turn.queued", { "aria-label": body.question },
      el("header.asked-here", {}, el("h2", { dir: "auto" }, body.question)),
      el("section.answer", {},
        problem ? el("p.problem", { role: "alert" }, problem) : el("p.live", {}, el("i.spin"), el("span.doing", {}, own.talk.waits(item) || "Starting")),
        el("footer", {},
          problem ? el("button.quiet", { type: "button", onclick: () => { item.problem = ""; own.talk.pump(); draw(own); } }, "Try again") : null,
          el("button.quiet", { type: "button", onclick: () => own.talk.remove(item) }, "Remove"))));
  }

  function follow(own) {
    const open = own.talk.rows.filter(own.talk.isOpen);
    for (const row of open.slice(0, FOLLOWED)) {
      const card = own.cards.get(row.id);
      card.follower ??= VIEW.follow(row.id, { say: card.status.say, ended: () => ended(own, card) });
    }
  }

  async function ended(own, card) {
    await own.talk.refresh().catch(() => null);
    const row = own.talk.rows.find(({ id }) => id === card.id);
    if (row && !own.talk.isOpen(row)) own.news.textContent = `${row.method}: ${row.answer ? answerOf(row) : row.error.message}`;
    card.follower = null; // If the server only refused to tell its events, it is followed again when it is drawn next.
    own.talk.pump();
  }

  // ---- what the next question is read with ---------------------------------------------------------------------

  function drawContext(own) {
    const before = new Set(own.talk.answered().map(keyOf)).size;
    if (!before || own.composer.hidden) return own.context.replaceChildren();
    if (!VIEW.app.converses()) return own.context.replaceChildren("This model reads one question at a time, without those above.");
    const text = `${own.isAlone ? "The model reads this question alone." : `The model also reads ${before === 1 ? "the question" : `the ${count(before)} questions`} above.`} `;
    const them = before === 1 ? "it" : "them";
    const label = own.isAlone ? `Read ${them} too` : `Ask without ${them}`;
    if (own.context.textContent === text + label) return;
    own.context.replaceChildren(text, el("button.quiet", {
      type: "button",
      onclick: () => {
        own.isAlone = !own.isAlone;
        drawContext(own);
        own.context.querySelector("button").focus();
      },
    }, label));
  }

  // The questions that a model knows about this video, where it knows no others.
  async function readKnown(own) {
    if (!own.talk.video || own.composer.hidden) return;
    const { any, data } = await VIEW.api.get(VIEW.videos.path(own.talk.id, "/questions"));
    if (any || shown !== own) return;
    const line = ({ question, choices }) => el("li", {}, el("button.video-row", { type: "button", onclick: () => own.form.set(question, choices) },
      el("span.name", {}, question), el("small", {}, choices.join(" · "))));
    own.known.hidden = false;
    own.known.replaceChildren(el("h2", {}, data.length ? "Choose a question" : "No questions"), el("p.note", {}, "This model knows the questions that came with its videos, and no others."),
      el("ul.videos", {}, data.map(line)));
  }

  VIEW.thread = { show, leave, refresh };
})();
