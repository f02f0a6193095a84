// Draws a page over its earlier state: what has not changed stays as it is, with all that the reader opened, selected
// or focused there.
"use strict";

VIEW.patch = (() => {
  const births = new WeakMap(); // Each element as it was made, before the reader changed it.
  const WHOLE = "a, button, label, .call, .picture, article.step"; // Replaced as a whole: their handlers know what they show.

  function remember(node) {
    births.set(node, node.outerHTML);
    for (const child of node.children) remember(child);
  }

  // Makes `old` look like `fresh`, parts of which it takes over. Both are elements of the same kind.
  function patch(old, fresh) {
    remember(fresh);
    if (births.has(old)) morph(old, fresh);
    else old.replaceWith(fresh);
  }

  function morph(old, fresh) {
    if (births.get(old) === births.get(fresh) || old.matches(".video-player")) return;
    if (old.localName !== fresh.localName || old.matches(WHOLE) || fresh.matches(WHOLE)) {
      old.replaceWith(fresh);
      return;
    }
    births.set(old, births.get(fresh));
    // The reader opens and closes details; the page does not.
    for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name) && name !== "open") old.removeAttribute(name);
    for (const { name, value } of fresh.attributes) old.setAttribute(name, value);
    const [before, after] = [[...old.childNodes], [...fresh.childNodes]];
    after.forEach((node, place) => {
      const at = before[place];
      if (!at) old.append(node);
      else if (at.nodeType === Node.ELEMENT_NODE && node.nodeType === Node.ELEMENT_NODE) morph(at, node);
      else if (at.nodeType !== node.nodeType || at.data !== node.data) at.replaceWith(node);
    });
    for (const node of before.slice(after.length)) node.remove();
  }

  patch.remember = remember;
  return patch;
})();
