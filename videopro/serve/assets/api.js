// Requests to the server that this page came from, and what is said while it does not answer.
"use strict";

const API = (() => {
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
    say("The server does not answer. This page tries again until it does; what runs there goes on.");
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
        reply = await fetch(path, { ...options, headers: { ...options.headers, ...KEY.headers() } });
      } catch (error) {
        if (error.name === "AbortError") throw error;
        const answered = lost();
        if (!again) throw new Refused("The connection to the server was lost before it answered: try again when it is back.", 0, "lost");
        await answered;
        continue;
      }
      if (reply.ok) return reply;
      const problem = (await reply.json().catch(() => null))?.error;
      if (reply.status === 401) {
        await KEY.ask();
        continue;
      }
      throw new Refused(problem?.message ?? `The server refused this (HTTP ${reply.status}).`, reply.status, problem?.code);
    }
  }

  const get = async (path) => (await send(path, { cache: "no-store" })).json();
  const post = async (path, content, options) =>
    (await send(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(content), again: false, ...options })).json();
  const postForm = async (path, fields, options) => {
    const body = new FormData();
    for (const [name, value] of Object.entries(fields)) body.append(name, ...[value].flat());
    return (await send(path, { method: "POST", body, again: false, ...options })).json();
  };
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

  // What a list holds.
  const list = async (path) => (await get(path)).data;

  return { Refused, get, list, post, postForm, remove, events };
})();
