// Requests to the server that this page came from, and what is said while it does not answer.
"use strict";

VIEW.api = (() => {
  const { el } = VIEW;
  const LOST = "The connection was lost before the server answered. Try again when it is back.";
  const EVERY = 1500; // Milliseconds between two tries while the server does not answer.

  // What the server says is wrong with a request, in one line.
  class Refused extends Error {
    constructor(message, status, code) {
      super(message);
      this.status = status;
      this.code = code;
    }
  }

  let isLost = false;
  let back = null; // Resolves when the server answers again.

  // Waits until the server answers again, and says so meanwhile.
  function lost() {
    if (isLost) return back;
    isLost = true;
    say("The server does not answer: it was stopped, or the connection is lost. This page tries until it is back.");
    back = (async () => {
      for (;;) {
        await new Promise((resolve) => setTimeout(resolve, EVERY));
        try {
          if ((await fetch("health", { cache: "no-store" })).ok) break;
        } catch {
          // Not yet.
        }
      }
      isLost = false;
      say("");
      dispatchEvent(new Event("server-back"));
    })();
    return back;
  }

  function say(text) {
    document.getElementById("trouble").replaceChildren(...(text ? [el("p", {}, el("i.spin"), text)] : []));
  }

  // The reply to a request; asks for a key where the server needs one. Raises Refused. `again`: whether the request may
  // be repeated after the connection was lost, as reading may.
  async function send(path, { again = true, ...options } = {}) {
    for (;;) {
      let reply;
      try {
        reply = await fetch(path, { ...options, headers: { ...options.headers, ...VIEW.key.headers() } });
      } catch (error) {
        if (error.name === "AbortError") throw error;
        const answered = lost();
        if (!again) throw new Refused(LOST, 0, "lost");
        await answered;
        continue;
      }
      if (reply.ok) return reply;
      const content = await reply.json().catch(() => null);
      if (reply.status === 401) {
        await VIEW.key.ask();
        continue;
      }
      throw refusal(reply.status, content);
    }
  }

  const refusal = (status, content) =>
    new Refused(content?.error?.message ?? `The server refused the request (HTTP ${status}).`, status, content?.error?.code);

  const get = async (path) => (await send(path, { cache: "no-store" })).json();
  const post = async (path, content, options) =>
    (await send(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(content), again: false, ...options })).json();
  // Sends a file in a form; `show(done, total)` is called with the bytes that are sent, which fetch() does not tell.
  // Raises Refused, or AbortError where `signal` ended it.
  async function upload(path, file, show = () => null, signal = new AbortController().signal) {
    const body = new FormData();
    body.append("file", file, file.name);
    for (;;) {
      const request = new XMLHttpRequest();
      request.open("POST", path);
      for (const [name, value] of Object.entries(VIEW.key.headers())) request.setRequestHeader(name, value);
      request.responseType = "json";
      request.upload.onprogress = (event) => show(event.loaded, event.total);
      signal.onabort = () => request.abort();
      await new Promise((resolve) => {
        request.onloadend = resolve;
        request.send(body);
      });
      signal.throwIfAborted();
      if (request.status === 401) await VIEW.key.ask();
      else if (request.status === 200) return request.response;
      else if (request.status === 0) {
        lost();
        throw new Refused(LOST, 0, "lost");
      } else throw refusal(request.status, request.response);
    }
  }
  const remove = (path) => send(path, { method: "DELETE" });

  // The events of a reply as they come: objects with a "type".
  async function* events(path, options) {
    const reader = (await send(path, { again: false, ...options })).body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const parts = (rest + value.replaceAll("\r\n", "\n")).split("\n\n");
      rest = parts.pop();
      for (const part of parts) {
        const data = part.split("\n").filter((line) => line.startsWith("data:")).map((line) => line.slice(5).trimStart()).join("\n");
        if (data && data !== "[DONE]") yield JSON.parse(data);
      }
    }
  }

  // The path of a question.
  const question = (id, rest = "") => `v1/videopro/questions/${encodeURIComponent(id)}${rest}`;

  // What a list holds.
  const list = async (path) => (await get(path)).data;

  return { Refused, get, list, post, upload, remove, events, question };
})();
