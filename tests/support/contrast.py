"""The contrast of every text on a page, as WCAG 2 computes it, from what the browser draws there."""

from __future__ import annotations

from typing import Any

# For each text: its colour and what lies behind it, as [red, green, blue] in 0..1. What is drawn over the
# text, such as the tint of the evidence over a tree, changes both.
_TEXTS = """(root) => {
  const read = (text) => {
    const parts = text.match(/-?[\\d.]+(?:e-?\\d+)?%?/g).map(Number);
    if (text.startsWith("color(srgb")) return [parts[0], parts[1], parts[2], parts[3] ?? 1];
    if (text.startsWith("rgb")) return [parts[0] / 255, parts[1] / 255, parts[2] / 255, parts[3] ?? 1];
    throw new Error(`unknown colour ${text}`);
  };
  const over = (top, below) => [0, 1, 2].map((i) => top[3] * top[i] + (1 - top[3]) * below[i]);
  const canvas = getComputedStyle(document.documentElement).colorScheme === "dark" ? [0, 0, 0] : [1, 1, 1];
  const layers = (nodes) => nodes.map((node) => {
    const style = getComputedStyle(node);
    // A picture may have any colour.
    if (style.backgroundImage.startsWith("url")) return "picture";
    return read(style.backgroundColor);
  });
  const found = [];
  const note = (node, x, y, color, text) => {
    const stack = document.elementsFromPoint(x, y);
    const place = stack.indexOf(node);
    if (place < 0) return;  // Cut off: it is not seen.
    let behind = canvas;
    for (const layer of layers(stack.slice(place)).reverse()) {
      if (layer === "picture") behind = null;
      else if (layer[3] === 1) behind = layer.slice(0, 3);
      else if (behind !== null) behind = over(layer, behind);
      else if (layer[3] > 0) behind = [NaN, NaN, NaN];
    }
    let opacity = 1;
    for (let one = node; one; one = one.parentElement) opacity *= Number(getComputedStyle(one).opacity);
    const own = read(color);
    own[3] *= opacity;
    if (behind === null) behind = [NaN, NaN, NaN];
    let front = over(own, behind);
    for (const layer of layers(stack.slice(0, place)).reverse()) {
      if (layer === "picture" || layer[3] === 1) return;  // Covered, as by the bar of a page: it is not seen.
      [front, behind] = [over(layer, front), over(layer, behind)];
    }
    found.push({ text: text.trim().slice(0, 60), kind: node.className || node.localName, front, behind });
  };
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  for (let text = walker.nextNode(); text; text = walker.nextNode()) {
    const node = text.parentElement;
    if (!text.data.trim() || ["script", "style", "noscript", "option"].includes(node.localName)) continue;
    const range = document.createRange();
    range.selectNodeContents(text);
    const { color, visibility } = getComputedStyle(node);
    for (const { left, top, width, height } of [...range.getClientRects()].slice(0, 3)) {
      if (width < 1 || visibility !== "visible") continue;
      note(node, left + Math.min(3, width / 2), top + height / 2, color, text.data);
    }
  }
  for (const node of [root, ...root.querySelectorAll("input, select")]) {
    if (!node.matches("input:not([type=range], [type=checkbox]), select")) continue;
    const { left, top, height } = node.getBoundingClientRect();
    note(node, left + 4, top + height / 2, getComputedStyle(node).color, node.value || "field");
    const { color } = getComputedStyle(node, "::placeholder");
    if (node.placeholder) note(node, left + 4, top + height / 2, color, node.placeholder);
  }
  return found;
}"""


def texts_of(page: Any) -> list[dict[str, Any]]:
    """The texts that are seen on a page, each with `ratio`."""
    # Elements that let clicks through are drawn, too; and what is seen is what lies in the window.
    style = page.add_style_tag(content="* { pointer-events: auto !important; transition: none !important }")
    width = page.viewport_size["width"]
    height = page.evaluate("Math.max(document.documentElement.scrollHeight, 900)")
    page.set_viewport_size({"width": width, "height": height})
    found: list[dict[str, Any]] = page.locator("html").evaluate(_TEXTS)
    style.evaluate("one => one.remove()")
    return [{**text, "ratio": ratio(text["front"], text["behind"])} for text in found]


def ratio(one: list[float], other: list[float]) -> float:
    """The contrast of two colours in 0..1, from 1 to 21."""
    light, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: list[float]) -> float:
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else float(((part + 0.055) / 1.055) ** 2.4) for part in colour
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
