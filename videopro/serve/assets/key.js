// The key of a server that needs one. Scripts send it with each request; videos and pictures are fetched by the browser
// itself, which sends the cookie of a session in its place.
"use strict";

VIEW.key = (() => {
  const { el } = VIEW;
  const KEPT = "videopro.key"; // Forgotten with the window.
  let asked = null;

  const headers = () => {
    const key = sessionStorage.getItem(KEPT);
    return key ? { Authorization: `Bearer ${key}` } : {};
  };

  // Resolves when a key was entered that the server takes.
  function ask() {
    asked ??= new Promise((resolve) => {
      const field = el("input", { id: "key", type: "password", autocomplete: "current-password", required: true });
      const note = el("p.note", { role: "status" }, "Ask the operator for it.");
      const dialog = el("dialog.key", { "aria-labelledby": "key-title" },
        el("form", {
          onsubmit: async (event) => {
            event.preventDefault();
            sessionStorage.setItem(KEPT, field.value.trim());
            const reply = await fetch("v1/videopro/session", { method: "POST", headers: headers() }).catch(() => null);
            if (reply?.ok) return dialog.close();
            note.className = "problem";
            note.textContent = reply === null ? "The server does not respond." : reply.status === 401 ? "Wrong key." : `The server refused the request (HTTP ${reply.status}).`;
            field.select();
          },
        },
          el("h2", { id: "key-title" }, "This server needs a key"), note,
          el("label", { for: "key" }, "Key"), field,
          el("div.buttons", {}, el("button.primary", {}, "Continue"))));
      dialog.addEventListener("cancel", (event) => event.preventDefault()); // There is nothing behind it yet.
      dialog.addEventListener("close", () => {
        dialog.remove();
        asked = null;
        resolve();
      });
      document.body.append(dialog);
      dialog.showModal();
    });
    return asked;
  }

  return { ask, headers };
})();
