// The questions about one video: those that the server has, and those that wait in this page for the upload, the index
// or the answer before them.
"use strict";

(() => {
  const OPEN = ["waiting", "running"];
  const PAUSE = 1000; // Milliseconds between two looks at the answer that a question waits for.
  const talks = new Map(); // By the video's id.
  let upload = null; // The talk whose video is being uploaded, or could not be.

  class Talk {
    video = null; // As the server describes it; null: it was deleted, or is being uploaded.
    rows = []; // What was asked, oldest first.
    queue = []; // What waits here: {body, isAlone, problem}.
    busy = ""; // Why no question can be sent yet.
    sending = null; // The upload: {name, bar, text, problem, isLost, send, cancel}; `isLost`: it can be sent again.
    changed = () => null; // Called when there is something else to see.
    #isPumping = false;
    #asked = 0; // Readings of the rows, in the order of their requests: a later one may arrive first.
    #read = 0;

    constructor(id) {
      this.id = id;
    }

    isOpen = (row) => OPEN.includes(row.state);
    answered = () => this.rows.filter((row) => row.state === "answered");

    async refresh() {
      if (this.id === null) return;
      const reading = ++this.#asked;
      const query = new URLSearchParams({ limit: 1000, file_id: this.id });
      const rows = await VIEW.api.list(`v1/videopro/questions?${query}`);
      if (reading < this.#read) return;
      this.#read = reading;
      this.rows = rows.reverse();
      this.changed();
    }

    // Why a question waits in this page; "" if it need not.
    waits(item) {
      if (this.busy) return this.busy;
      const reads = VIEW.app.converses() && !item.isAlone && item.body.follows === undefined;
      return reads && this.rows.some(this.isOpen) ? "Waits for the answer above" : "";
    }

    // Ask now, or as soon as it can be asked. `isAlone`: without the questions before it. Raises Refused for a question
    // that the server refuses at once.
    async ask(body, isAlone = false) {
      const item = { body, isAlone, problem: "" };
      if (!this.queue.length && !this.waits(item)) return this.#send(item);
      this.queue.push(item);
      this.changed();
      this.pump();
    }

    async #send(item) {
      const { body, isAlone } = item;
      const before = isAlone || !VIEW.app.converses() ? null : this.answered().at(-1);
      await VIEW.api.post("v1/videopro/questions", { follows: before?.id, ...body, file_id: this.id });
      this.queue = this.queue.filter((one) => one !== item);
      // It was asked: who reads that it was not would ask it twice.
      await this.refresh().catch(() => null);
    }

    remove(item) {
      this.queue = this.queue.filter((one) => one !== item);
      this.changed();
    }

    // Send what waits, one after the other.
    async pump() {
      if (this.#isPumping) return;
      this.#isPumping = true;
      try {
        for (let item; !this.busy && (item = this.queue.find((one) => !one.problem)); ) {
          try {
            if (this.waits(item)) {
              await new Promise((resolve) => setTimeout(resolve, PAUSE));
              await this.refresh();
              continue;
            }
            await this.#send(item);
          } catch (error) {
            item.problem = error.message;
            this.changed();
          }
        }
      } finally {
        this.#isPumping = false;
      }
    }

    free() {
      this.busy = "";
      this.changed();
      this.pump();
    }

    // Index the video; `show(done, total)` is called as it goes on. Raises Error.
    async index(show) {
      this.busy = "Waits for the index";
      try {
        for await (const event of VIEW.api.events(VIEW.videos.path(this.id, "/index"), { method: "POST" })) {
          if (event.type === "progress") show(event.done, event.total);
          if (event.type === "indexed" && event.error) throw new Error(event.error.message);
        }
        this.video = await VIEW.videos.read(this.id, { isFresh: true });
      } finally {
        this.free();
      }
    }
  }

  // The talk about a video, as the server has it now; null: the one whose video is being uploaded, if there is one.
  async function of(id) {
    if (id === null) return upload;
    for (const [other, { queue, busy }] of talks) if (other !== id && !queue.length && !busy) talks.delete(other);
    if (!talks.has(id)) talks.set(id, new Talk(id));
    const talk = talks.get(id);
    talk.video = await VIEW.videos.read(id, { isFresh: true });
    await talk.refresh();
    return talk;
  }

  // Upload a video, about which questions can be written meanwhile. `arrived(id)` is called when the server has it.
  function begin(file, arrived) {
    upload?.sending.cancel();
    const talk = (upload = new Talk(null));
    const stop = new AbortController();
    const sending = (talk.sending = { name: file.name, bar: VIEW.progress("Uploading"), text: "", problem: "", isLost: false, send, cancel });
    let began;
    talk.busy = "Waits for the upload";
    const show = (done, total) => {
      sending.bar.show(done, total);
      const left = ((performance.now() - began) / 1000) * (total / done - 1);
      const rest = done === total ? "the server reads the video" : `about ${left < 90 ? `${Math.ceil(left)} s` : `${Math.round(left / 60)} min`} left`;
      sending.text = `${Math.floor((100 * done) / total)} % of ${VIEW.videos.bytes(total)}, ${rest}`;
      talk.changed();
    };
    function cancel() {
      stop.abort();
      if (upload === talk) upload = null;
    }
    async function send() {
      Object.assign(sending, { problem: "", isLost: false });
      began = performance.now();
      try {
        // A browser sends all of a video before it reads that it is too large.
        if (file.size > VIEW.app.largestVideo()) throw new Error(`the limit of this server is ${VIEW.videos.bytes(VIEW.app.largestVideo())}`);
        const video = await VIEW.api.upload("v1/files", file, show, stop.signal);
        // The same video may have been here already.
        talk.video = video;
        talk.id = video.id;
        talk.sending = null;
        talks.set(video.id, talk);
        if (upload === talk) upload = null;
        arrived(video.id);
        await talk.refresh();
        talk.free();
      } catch (error) {
        if (error.name === "AbortError") return;
        Object.assign(sending, { problem: error.message.startsWith(file.name) ? error.message : `${file.name}: ${error.message}`, isLost: error.code === "lost" });
        talk.changed();
      }
    }
    send();
  }

  // Whether something would be lost with this page.
  const isUnfinished = () => [upload, ...talks.values()].some((talk) => talk && ((talk.sending && !talk.sending.problem) || talk.queue.length));

  // The upload that goes on, or could go on.
  const sending = () => (upload && (!upload.sending.problem || upload.sending.isLost) ? upload.sending : null);

  VIEW.talk = { of, begin, sending, isUnfinished, forget: (id) => talks.delete(id) };
})();
