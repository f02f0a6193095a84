// The video of a question: beside what was asked, and in a corner of the window while the reader is further down.
//
// Every time on the page that can be played is a link (VIEW.moment) which names the question and the time. If there is
// no video, or the browser cannot play it, one line says so, and times are plain text.
"use strict";

(() => {
  const { el, clock } = VIEW;
  const LATER = 0.001; // Times are rounded to the millisecond; the video is set on the same frame, not on the one before.
  let shown = null; // Of the question on the page: {page, video, failure, open, ...}; null if it has none.

  // The player of a page: `holder` and `note`, of which one is shown. `page.video.source`: {url}, or {missing: why}. With
  // `isUpdate`, the video of a page that is drawn again plays on where it is, and `holder` only marks its place.
  VIEW.player = (page, pictures, isUpdate = false) => {
    const { source, duration } = page.video;
    const note = el("p.note.no-video", { role: "status", hidden: true });
    if (isUpdate && shown?.url === source?.url) return shown.failure ? refuse(note, shown.failure) : { holder: el("div.video-player"), note };
    shown = null;
    // What is wrong with the file is said where its pictures would be.
    if (!source || !(duration > 0) || pictures?.error) return { holder: null, note };
    if (!source.url) return refuse(note, source.missing);
    const video = el("video", { src: source.url, controls: true, preload: "metadata", playsinline: true, "aria-label": "Video", "aria-keyshortcuts": "p" });
    const player = el("div.player", {}, video,
      el("button.shut", { "aria-label": "Close the video", title: "Close the video", onclick: () => close() }, "×"));
    const holder = el("div.video-player", {}, player);
    shown = { page, url: source.url, video, failure: "", isOpen: false, isAfloat: false };
    const own = shown;

    function fail() {
      own.failure = `Cannot play the video: it was moved, or this browser does not support its format (${page.video.path}).`;
      holder.remove();
      if (shown !== own) return;
      // A link without an address is a text.
      for (const link of document.querySelectorAll("a.moment")) link.removeAttribute("href");
      refuse(document.querySelector(".no-video") ?? note, own.failure);
    }
    function close() {
      video.pause();
      own.isOpen = false;
      float();
      holder.querySelector("video").focus({ preventScroll: true });
    }
    const float = () => player.classList.toggle("afloat", own.isOpen && own.isAfloat);
    own.open = () => {
      own.isOpen = true;
      float();
    };
    video.addEventListener("error", fail);
    // A video whose pictures the browser cannot decode has a sound at best.
    video.addEventListener("loadedmetadata", () => (video.videoWidth ? null : fail()));
    video.addEventListener("play", own.open);
    for (const event of ["timeupdate", "seeked"]) {
      video.addEventListener(event, () => {
        const head = document.querySelector(".playhead");
        if (!head || shown !== own) return;
        head.hidden = false;
        head.style.left = `${100 * Math.min(1, video.currentTime / duration)}%`;
      });
    }
    new IntersectionObserver(([seen]) => {
      own.isAfloat = seen.intersectionRatio < 0.5;
      float();
    }, { threshold: 0.5 }).observe(holder);
    const { time } = VIEW.address();
    if (time !== null) VIEW.seek(time);
    return { holder, note };
  };

  function refuse(note, why) {
    note.textContent = why;
    note.hidden = false;
    return { holder: null, note };
  }

  VIEW.hasVideo = () => shown !== null && !shown.failure;

  // Take the video to a time (s). `play`: true plays from there, false stops there; without it, it goes on as it was.
  // `isQuiet`: a video that nobody has played does not come into view. False if there is no video.
  VIEW.seek = (time, { play = null, isQuiet = false } = {}) => {
    if (!VIEW.hasVideo()) return false;
    const { video } = shown;
    video.currentTime = time + LATER;
    if (!isQuiet) shown.open();
    if (play === false) video.pause();
    // A browser may refuse to play what no click asked for; the video stands at its time then.
    if (play) video.play().catch(() => null);
    return true;
  };

  VIEW.togglePlay = () => {
    if (!VIEW.hasVideo() || !shown.video.isConnected) return false; // The page may show something else since.
    if (shown.video.paused) shown.video.play().catch(() => null);
    else shown.video.pause();
    return true;
  };

  // A time as a link that plays from there; as text if there is no video. It replaces the address without a new entry in
  // the browser's history: Back still leads to the list.
  VIEW.moment = (time, text = clock(time, true), kind = "") => {
    if (!VIEW.hasVideo()) return text;
    const href = VIEW.hash(shown.page.id, undefined, time);
    return el(`a.moment${kind ? `.${kind}` : ""}`, {
      href, title: `Play from ${clock(time, true)}`,
      onclick: (event) => {
        if (event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
        event.preventDefault();
        event.stopPropagation();
        if (VIEW.seek(time, { play: true })) history.replaceState(null, "", href);
      },
    }, text);
  };
})();
