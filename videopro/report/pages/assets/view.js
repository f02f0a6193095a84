// The viewer's ground: data that arrives as scripts, elements made of text, and which page the address asks for.
//
// Everything shown was written by models, programs and videos' subtitles: it goes into the page as text
// (`el`), never as markup. Data files call VIEW.index, VIEW.page and VIEW.pictures; a page that was opened from
// disk may load scripts beside it, and may fetch nothing.
"use strict";

(() => {
  Object.assign(VIEW, {
    run: null, // What data/index.js says of the run.
    rows: [], // The questions as objects, in the run's order.
    byId: new Map(),
    _arrived: new Map(),
    _asked: new Map(),
  });

  // Over HTTP, `after` says how many rows came before these. A question that was answered again comes last.
  VIEW.index = (_, content) => {
    const { after = 0, columns, rows } = content;
    VIEW.run = content;
    if (after === 0) VIEW.byId.clear();
    rows.forEach((row, place) => {
      const record = { place: after + place };
      columns.forEach((name, i) => (record[name] = row[i]));
      record.marks = new Set(record.marks);
      record.text = `${record.id}\n${record.question}\n${record.video}\n${Object.values(record.groups).join("\n")}`.toLowerCase();
      if (VIEW.byId.delete(record.id)) VIEW._asked.delete(`data/questions/${record.page}.js`);
      VIEW.byId.set(record.id, record);
    });
    if (rows.length || after === 0) VIEW.rows = [...VIEW.byId.values()];
  };
  VIEW.page = (name, content) => VIEW._arrived.set(`data/questions/${name}.js`, content);
  VIEW.pictures = (name, content) => VIEW._arrived.set(`pictures/${name}.js`, content.url ? VIEW.eachFrame(content) : { name, ...content });

  // Run a script; whether it came.
  VIEW.script = (path) =>
    new Promise((resolve) => {
      const script = document.createElement("script");
      const end = ({ type }) => {
        script.remove();
        resolve(type === "load");
      };
      script.src = path;
      script.onload = end;
      script.onerror = end;
      document.head.append(script);
    });

  // The content of a data file, once; null if it is not there.
  VIEW.load = (path) => {
    if (VIEW._asked.has(path)) return VIEW._asked.get(path);
    const asked = VIEW.script(path).then(() => {
      const content = VIEW._arrived.get(path) ?? null;
      VIEW._arrived.delete(path);
      if (content === null) VIEW._asked.delete(path); // A server may have it later.
      return content;
    });
    VIEW._asked.set(path, asked);
    // Someone who walks through thousands of questions needs the last ones only.
    if (VIEW._asked.size > 200) VIEW._asked.delete(VIEW._asked.keys().next().value);
    return asked;
  };

  // An element: el("div.row.wide", {title: "..."}, child, "text", ...). Null children are left out.
  function el(name, attributes, ...children) {
    const [tag, ...classes] = name.split(".");
    const node = document.createElement(tag || "div");
    if (classes.length) node.className = classes.join(" ");
    for (const [key, value] of Object.entries(attributes || {})) {
      if (value === null || value === undefined || value === false) continue;
      if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
      else if (key === "style") for (const [k, v] of Object.entries(value)) node.style.setProperty(k, v);
      else if (key === "class") node.className = `${node.className} ${value}`.trim();
      else node.setAttribute(key, value === true ? "" : value);
    }
    node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
    return node;
  }

  const percent = (share, digits = 1) => (share === null || share === undefined ? "–" : `${(100 * share).toFixed(digits)} %`);
  const two = (share) => (share === null || share === undefined ? "–" : share.toFixed(2));
  const count = (number) => number.toLocaleString("en");

  function duration(seconds) {
    if (seconds >= 100) return `${Math.round(seconds)} s`;
    if (seconds > 0 && seconds < 0.1) return `${Math.max(1, Math.round(1000 * seconds))} ms`;
    return seconds >= 10 ? `${seconds.toFixed(1)} s` : `${seconds.toFixed(2)} s`;
  }

  // Seconds of a video as 1:02:03, 2:03 or 2:03.5.
  function clock(seconds, fine = false) {
    const whole = Math.floor(seconds + 1e-6);
    const parts = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
    const text = (parts[0] ? [parts[0], pad(parts[1]), pad(parts[2])] : [parts[1], pad(parts[2])]).join(":");
    const rest = Math.round((seconds - whole) * 10);
    return fine && rest > 0 && rest < 10 ? `${text}.${rest}` : text;
  }
  const pad = (number) => String(number).padStart(2, "0");

  // A button that draws more nodes, in its own place unless `draw` puts them elsewhere. The keyboard goes on at the first.
  function more(text, nodes, draw = null) {
    const button = el("button.quiet.rest", {
      onclick: () => {
        const made = nodes();
        if (draw) draw(...made);
        else button.before(...made);
        button.remove();
        made[0].tabIndex = -1;
        made[0].focus({ preventScroll: true });
      },
    }, text);
    return button;
  }

  const STATES = {
    right: "Right",
    wrong: "Wrong",
    unparsed: "No option recognized",
    error: "No answer",
    unscored: "Not scored",
  };
  const stateMark = (state) => el(`span.state.${state}`, { title: STATES[state], role: "img", "aria-label": STATES[state] });
  const meter = (share, title) =>
    el("span.meter", { title, "aria-hidden": "true" }, el("i", { style: { width: `${100 * Math.max(0, Math.min(1, share))}%` } }));

  // ---- addresses: #/?filters for the list, #/q/ID?filters&t=12.5 for a question and a time of its video -------

  VIEW.address = () => {
    const text = location.hash.replace(/^#\/?/, "");
    const at = text.indexOf("?");
    const path = at < 0 ? text : text.slice(0, at);
    let id = null;
    if (path.startsWith("q/")) {
      try {
        id = decodeURIComponent(path.slice(2));
      } catch {
        id = path.slice(2);
      }
    }
    const query = new URLSearchParams(at < 0 ? "" : text.slice(at + 1));
    const time = Number.parseFloat(query.get("t"));
    query.delete("t");
    return { id, query: query.toString(), time: time >= 0 ? time : null };
  };
  VIEW.hash = (id = null, query = VIEW.filters.query(), time = null) => {
    const rest = [query, time === null ? "" : `t=${time}`].filter(Boolean).join("&");
    return `#/${id === null ? "" : `q/${encodeURIComponent(id)}`}${rest ? `?${rest}` : ""}`;
  };
  VIEW.go = (id) => (location.hash = VIEW.hash(id));

  VIEW.show = () => {
    const { id, query, time } = VIEW.address();
    const same = id !== null && VIEW._shown === `${id}\n${query}`;
    VIEW._shown = `${id}\n${query}`;
    if (same && time !== null && VIEW.seek(time)) return; // Another time of the question that is shown.
    VIEW.filters.read(query);
    if (id === null) VIEW.showList();
    else VIEW.showQuestion(id);
  };

  // What the page is made of came anew: the list takes it, and a question that was not there yet is shown.
  VIEW.update = () => {
    const { id } = VIEW.address();
    if (id === null) VIEW.updateList();
    else if (VIEW.missing === id && VIEW.byId.has(id)) VIEW.show();
  };
  VIEW.news = () => VIEW.run?.log && { path: `data/index.js?after=${VIEW.run.next}`, log: VIEW.run.log, more: VIEW.run.progress.reading || VIEW.run.next < VIEW.run.count };

  VIEW.start = () => {
    const main = document.getElementById("main");
    if (!VIEW.run) {
      main.replaceChildren(el("h1.empty", {}, "data/index.js is missing or broken; re-run the command that made this folder."));
      return;
    }
    window.addEventListener("hashchange", VIEW.show);
    document.addEventListener("keydown", VIEW.key);
    VIEW.show();
  };

  // j k or arrows walk, Enter opens (rows are links), Escape goes back, / searches, p plays, ? opens the legend. No key acts
  // while something is typed into a field. An open frame has its own keys, and so has the video for the arrows.
  VIEW.key = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const field = event.target.closest?.("input:not([type=range]):not([type=checkbox]), select, textarea");
    if (event.key === "Escape") {
      if (field) field.blur();
      else if (VIEW.toggleLegend(false)) document.querySelector(".legend-button").focus();
      else if (VIEW.address().id !== null) VIEW.go(null);
      return;
    }
    if (field) {
      if (event.key === "Enter" && field.type === "search") VIEW.focusRow(0);
      return;
    }
    const inQuestion = VIEW.address().id !== null;
    const step = { j: 1, k: -1, ...(inQuestion ? { ArrowRight: 1, ArrowLeft: -1 } : { ArrowDown: 1, ArrowUp: -1 }) }[event.key];
    if (event.target.matches?.("input[type=range]") || (event.target.matches?.("video") && event.key.startsWith("Arrow"))) return;
    if (step) {
      event.preventDefault();
      if (inQuestion) VIEW.walk(step);
      else VIEW.moveRow(step);
    } else if (event.key === "?") {
      event.preventDefault();
      VIEW.toggleLegend();
    } else if (event.key === "p" && inQuestion) {
      event.preventDefault();
      VIEW.togglePlay();
    } else if (event.key === "/" && !inQuestion) {
      event.preventDefault();
      document.getElementById("search")?.focus();
    }
  };

  // ---- a run in progress, over HTTP ---------------------------------------------------------------------------

  VIEW.runStatus = ({ done, total, running, reading, rate, problem }) => {
    if (VIEW.lost) return "the server does not answer; trying again";
    if (problem) return problem;
    if (reading) return "reading the run";
    if (!running) return done < total ? `stopped with ${count(total - done)} left; re-run its command to resume` : "finished";
    return rate ? `${(60 * rate).toFixed(1)} per minute, ${clock((total - done) / rate)} left` : "waiting for answers";
  };
  VIEW.runProgress = (progress) =>
    el("div.run-progress", {}, el("progress", { max: Math.max(1, progress.total), value: progress.done, "aria-label": "Progress" }),
      el("strong", {}, `${count(progress.done)} of ${count(progress.total)} answered`), el("span", {}, VIEW.runStatus(progress)));

  Object.assign(VIEW, { el, more, percent, two, count, duration, clock, STATES, stateMark, meter });
})();
