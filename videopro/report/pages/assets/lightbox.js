// A frame in large, and the other frames of its call by the arrow keys, the buttons or a swipe. The video follows, quietly.
"use strict";

(() => {
  const { el } = VIEW;

  // A picture that opens large. `frames`: all that the call shows, each {time, at, title, draw, notes}: its time and name,
  // a function that makes its pictures, and what was found in it.
  VIEW.opener = (frames, place, about) =>
    el("button.open", {
      "aria-label": `Open ${frames[place].title}`,
      onclick: (event) => VIEW.lightbox(frames, place, about, event.currentTarget),
    }, frames[place].draw());

  VIEW.lightbox = (frames, first, about, opener) => {
    const SWIPE = 40; // Pixels.
    let place = first;
    const stage = el("div.stage");
    const caption = el("p.caption", { "aria-live": "polite" });
    const button = (step, name, sign) =>
      el("button.step-frame", { "aria-label": name, title: name, onclick: () => go(step) }, sign);
    const before = button(-1, "Previous frame (←)", "‹");
    const after = button(1, "Next frame (→)", "›");
    const play = () => {
      dialog.close();
      VIEW.moment(frames[place].time).click();
    };
    const dialog = el("dialog.lightbox", { "aria-label": about },
      el("header", {}, el("strong", {}, about),
        el("span.hints", {}, frames.length > 1 ? [el("kbd", {}, "←"), el("kbd.next", {}, "→"), " frames "] : null, VIEW.hasVideo() ? [el("kbd", {}, "p"), " play "] : null, el("kbd", {}, "esc"), " close"),
        VIEW.hasVideo() ? el("button.play", { title: "Play the video from here (p)", onclick: play }, "Play from here") : null,
        el("button.close", { "aria-label": "Close (Escape)", title: "Close (Escape)", onclick: () => dialog.close() }, "×")),
      stage,
      el("footer", {}, before, caption, after));

    function show() {
      const { time, at, notes, draw } = frames[place];
      VIEW.seek(time, { play: false, isQuiet: true });
      stage.replaceChildren(draw(true));
      for (const picture of stage.querySelectorAll(".picture")) picture.style.backgroundImage = picture.dataset.large ?? picture.dataset.sheet;
      caption.replaceChildren(el("time", {}, at),
        frames.length > 1 ? el("span.number", {}, `${place + 1} of ${frames.length}`) : "",
        ...notes.map((note) => el("span.found-there", {}, note)));
      before.disabled = place === 0;
      after.disabled = place === frames.length - 1;
    }

    function go(step) {
      const next = Math.max(0, Math.min(frames.length - 1, place + step));
      if (next === place) return;
      place = next;
      show();
    }

    // The page's own keys are asleep while a frame is open. The browser closes the dialog at Escape.
    dialog.addEventListener("keydown", (event) => {
      event.stopPropagation();
      const step = { ArrowLeft: -1, ArrowRight: 1, Home: -frames.length, End: frames.length }[event.key];
      if (event.ctrlKey || event.metaKey || event.altKey || (event.key === "p" && !VIEW.hasVideo())) return;
      if (!step && event.key !== "p") return;
      event.preventDefault();
      if (step) go(step);
      else play();
    });
    let down = null;
    stage.addEventListener("pointerdown", (event) => (down = event.clientX));
    stage.addEventListener("pointerup", (event) => {
      const moved = down === null ? 0 : event.clientX - down;
      down = null;
      if (Math.abs(moved) >= SWIPE) go(moved < 0 ? 1 : -1);
    });
    dialog.addEventListener("click", (event) => event.target === dialog && dialog.close()); // Beside the picture.
    const leave = () => dialog.close();
    addEventListener("hashchange", leave);
    dialog.addEventListener("close", () => {
      removeEventListener("hashchange", leave);
      dialog.remove();
      opener.focus({ preventScroll: true });
    });
    show();
    document.body.append(dialog);
    dialog.showModal();
  };
})();
