// The form of a question: its text, its choices if it has some, and the method that answers it.
"use strict";

(() => {
  const { el } = VIEW;
  const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
  let offered = null;

  // The method that was chosen last, kept for the next question and for a reload.
  const KEPT = "videopro.method";

  // `begin(body)` gets {question, choices, method} and asks; what it raises is shown at the form. `name()`: what is
  // asked about; a question that is left half written is there again.
  function form(begin, name) {
    const draft = () => `videopro.draft.${name()}`;
    const field = el("textarea", { id: "question", dir: "auto", rows: 2, required: true, placeholder: "What happens after the door opens?", "aria-keyshortcuts": "/" });
    field.value = sessionStorage.getItem(draft()) ?? "";
    field.addEventListener("input", () => sessionStorage.setItem(draft(), field.value));
    const problem = el("p.problem", { role: "alert", hidden: true });
    const options = choices();
    const method = el("select", { id: "method", "aria-describedby": "about-method" });
    const note = el("p.note", { id: "about-method" });
    const submit = el("button.primary", {}, "Ask");
    fillMethods(method, note);
    const node = el("form.ask", {
      novalidate: true,
      onsubmit: async (event) => {
        event.preventDefault();
        if (submit.disabled) return;
        const text = field.value.trim();
        if (!text) return refuse("Write a question first.", field);
        const given = options.values();
        if (given.length === 1) return refuse("Add a second choice, or remove this one for an answer in words.", options.node.querySelector("input"));
        problem.hidden = true;
        submit.disabled = true;
        try {
          await begin({ question: text, choices: given, method: method.value || undefined });
          if (field.value.trim() === text) set(""); // The next question may be half written.
        } catch (error) {
          refuse(error.message, null);
        } finally {
          submit.disabled = false;
        }
      },
    },
      el("label", { for: "question" }, "Question"), field, options.node,
      el("div.last", {}, el("label.method", {}, el("span", {}, "Method"), method), note, submit), problem);
    field.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      node.requestSubmit();
    });

    function refuse(text, place) {
      problem.textContent = text;
      problem.hidden = false;
      place?.focus();
    }
    function set(text, given = []) {
      field.value = text;
      sessionStorage.setItem(draft(), text);
      options.set(given);
      problem.hidden = true;
      field.focus();
    }
    return { node, field, set };
  }

  // The choices: a new line appears as soon as the last one is filled.
  function choices() {
    const list = el("ol.options", { hidden: true });
    const add = el("button.quiet", { type: "button", onclick: () => open(true) }, "Add choices");
    const node = el("div.choosing", {}, add, list);
    const rows = () => [...list.querySelectorAll("input")];

    function line(text = "") {
      const letter = el("span.letter", { "aria-hidden": "true" });
      const field = el("input", { type: "text", dir: "auto", value: text, autocomplete: "off", oninput: grow, onkeydown: step });
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
      list.hidden = false;
      while (rows().length < 2) line();
      if (hasFocus) rows()[0].focus();
    }
    function set(given) {
      list.replaceChildren();
      list.hidden = true;
      add.hidden = false;
      for (const text of given) line(text);
      if (!given.length) return;
      open(false);
      grow();
    }
    return { node, set, values: () => rows().map((field) => field.value.trim()).filter(Boolean) };
  }

  // The methods that this server offers: {data: [{id, about, open_questions}], default}.
  const methods = async () => (offered ??= await VIEW.api.get("v1/videopro/methods"));

  async function fillMethods(field, note) {
    let offer;
    try {
      offer = await methods();
    } catch (error) {
      note.textContent = error.message;
      return;
    }
    const { data, default: first } = offer;
    const kept = [sessionStorage.getItem(KEPT), first].find((id) => data.some((method) => method.id === id));
    field.replaceChildren(...data.map(({ id }) => el("option", { value: id, selected: id === kept }, id)));
    const describe = () => {
      const method = data.find(({ id }) => id === field.value);
      note.textContent = [method.about, method.open_questions === false ? "Needs choices." : ""].filter(Boolean).join(" ");
    };
    field.addEventListener("change", () => {
      sessionStorage.setItem(KEPT, field.value);
      describe();
    });
    describe();
  }

  VIEW.form = Object.assign(form, { methods, LETTERS });
})();
