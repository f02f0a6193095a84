// The form of a question: its text, its choices if it has some, and the method that answers it.
"use strict";

VIEW.form = (() => {
  const { el } = VIEW;
  const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
  let methods = null;

  // What a reader typed last, kept for the next question and for a reload.
  const KEPT = "videopro.method";

  // `begin(body)` gets {question, choices, method} and starts the question; what it raises is shown at the form.
  function form(begin, { label = "Question", button = "Ask", draft = {} } = {}) {
    const question = el("textarea", { id: "question", rows: 2, required: true, placeholder: "What happens after the door opens?", "aria-keyshortcuts": "/" });
    question.value = draft.question ?? "";
    const problem = el("p.problem", { role: "alert", hidden: true });
    const options = choices(draft.choices ?? []);
    const method = el("select", { id: "method" });
    const note = el("p.note.about-method");
    const submit = el("button.primary", {}, button);
    fillMethods(method, note, draft.method);
    const node = el("form.ask", {
      onsubmit: async (event) => {
        event.preventDefault();
        if (submit.disabled) return;
        const text = question.value.trim();
        if (!text) return refuse("Write a question first.", question);
        const given = options.values();
        if (given.length === 1) return refuse("Add a second choice, or remove this one for an answer in words.", options.node.querySelector("input"));
        problem.hidden = true;
        submit.disabled = true;
        try {
          await begin({ question: text, choices: given, method: method.value || undefined });
        } catch (error) {
          refuse(error.message, null);
        } finally {
          submit.disabled = false;
        }
      },
    },
      el("label", { for: "question" }, label), question, options.node,
      el("div.last", {}, el("label.method", {}, el("span", {}, "Method"), method), note, submit), problem);
    question.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      node.requestSubmit();
    });

    function refuse(text, field) {
      problem.textContent = text;
      problem.hidden = false;
      field?.focus();
    }
    return { node, refuse, clear: () => (question.value = "") };
  }

  // The choices: a new line appears as soon as the last one is filled.
  function choices(given) {
    const list = el("ol.options");
    const add = el("button.quiet", { type: "button", onclick: () => open(true) }, "Add choices");
    const node = el("div.choosing", {}, add, list);
    const rows = () => [...list.querySelectorAll("input")];

    function line(text = "") {
      const letter = el("span.letter", { "aria-hidden": "true" });
      const field = el("input", { type: "text", value: text, autocomplete: "off", oninput: grow, onkeydown: step });
      list.append(el("li", {}, letter, field));
      letters();
    }
    function letters() {
      rows().forEach((field, place) => {
        field.previousSibling.textContent = LETTERS[place];
        field.setAttribute("aria-label", `Choice ${LETTERS[place]}`);
        field.placeholder = place < 2 ? "" : "another choice (optional)";
      });
    }
    function grow() {
      const fields = rows();
      if (fields.at(-1).value && fields.length < LETTERS.length) line();
    }
    // Enter goes to the next choice; on an empty one it asks, as it does in the question.
    function step(event) {
      const fields = rows();
      const next = fields[fields.indexOf(event.target) + 1];
      if (event.key === "Enter" && event.target.value && next) {
        event.preventDefault();
        next.focus();
      } else if (event.key === "Backspace" && !event.target.value && fields.length > 2) {
        event.preventDefault();
        const before = fields[Math.max(0, fields.indexOf(event.target) - 1)];
        event.target.parentElement.remove();
        letters();
        before.focus();
      }
    }
    function open(hasFocus) {
      add.hidden = true;
      while (rows().length < 2) line();
      if (hasFocus) rows()[0].focus();
    }
    for (const text of given) line(text);
    if (given.length) {
      open(false);
      grow();
    }
    return { node, values: () => rows().map((field) => field.value.trim()).filter(Boolean) };
  }

  async function fillMethods(field, note, chosen) {
    try {
      methods ??= await VIEW.api.get("v1/videopro/methods");
    } catch (error) {
      note.textContent = error.message;
      return;
    }
    const ids = methods.data.map((method) => method.id);
    const first = methods.default;
    const kept = [chosen, sessionStorage.getItem(KEPT), first].find((id) => ids.includes(id));
    field.replaceChildren(...methods.data.map(({ id }) => el("option", { value: id, selected: id === kept }, id)));
    const describe = () => {
      const method = methods.data.find(({ id }) => id === field.value);
      note.textContent = method?.open_questions === false ? "needs choices" : "";
    };
    field.addEventListener("change", () => {
      sessionStorage.setItem(KEPT, field.value);
      describe();
    });
    describe();
  }

  // Start a question about a film. `after`: the question that it follows. Returns its id.
  async function begin(filmId, body, after = null) {
    const content = { file_id: filmId, ...body };
    if (after !== null) content.follows = after;
    return (await VIEW.api.post("v1/videopro/questions", content)).id;
  }

  return { form, begin };
})();
