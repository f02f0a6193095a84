"""Headless Chromium, for tests of pages: the contrast of a page's texts, too.

Needs `chromium` on the PATH (Debian's package of that name; `launch/test.sh all` installs it where it can)
and playwright, which drives it; without them the tests are skipped.
"""

import importlib.util
import io
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.support.making_videos import HEIGHT, WIDTH, read_number

CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))),
    None,
)
needs_browser = [
    pytest.mark.browser,
    pytest.mark.skipif(
        CHROMIUM is None or importlib.util.find_spec("playwright") is None,
        reason="needs chromium on the PATH (apt-get install chromium) and playwright "
        "(pip install playwright)",
    ),
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """For the conftest of a folder with tests of pages."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # Chromium's own sandbox does not run as root.
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


Open = Callable[..., Any]
"""Opens a page of a site: `open_page(hash, folder=...)`."""

_READY = (
    "main.list, main.question, main.runs, main.home, main > .gone, dialog, "
    "main > .empty:not(:text('Reading')):not(:text('Connecting'))"
)


@contextmanager
def opening(browser: Any, width: int) -> Iterator[Open]:
    """Opens pages. Whatever goes wrong in one, and whatever it asks for outside its home, fails the test, but
    for films, which are played from where they are."""
    wrong: list[str] = []
    contexts = []

    def open_page(home: str, path: str, *, wrong_is_fine: bool = False, **options: Any) -> Any:
        context = browser.new_context(**{"viewport": {"width": width, "height": 900}, **options})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(60_000)  # Other processes may share the cores.
        page.requested, page.films = [], []
        if not wrong_is_fine:
            page.on("pageerror", lambda error: wrong.append(str(error)))

        def note(request: Any) -> None:
            asked = page.films if request.resource_type == "media" else page.requested
            asked.append(request.url.replace(home, ""))

        page.on("request", note)
        page.goto(home + path)
        page.wait_for_selector(_READY)
        return page

    yield open_page
    for context in contexts:
        wrong += [url for page in context.pages for url in page.requested if "://" in url]
        context.close()
    assert wrong == []


def shown_number(element: Any) -> int:
    """The number of the picture that an element shows (`tests.support.making_videos`), read from the screen;
    a player stands a picture that is twice as wide as high between two black bars."""
    whole = np.asarray(Image.open(io.BytesIO(element.screenshot())).convert("RGB"))
    high = min(whole.shape[0], whole.shape[1] * HEIGHT // WIDTH)
    top = (whole.shape[0] - high) // 2
    cut = Image.fromarray(whole[top : top + high]).resize((WIDTH, HEIGHT), Image.Resampling.BICUBIC)
    return read_number(np.asarray(cut))


def texts(place: Any) -> list[str]:
    return [str(text) for text in place.all_inner_texts()]


def over(page: Any, selector: str, track: str, seconds: float) -> list[list[float]]:
    """(start, end) in s of what is drawn over a time axis."""
    found: list[list[float]] = page.locator(selector).evaluate_all(
        """(all, [track, seconds]) => all.map(one => {
        const a = one.getBoundingClientRect(), b = one.closest(track).getBoundingClientRect();
        return [seconds * (a.left - b.left) / b.width, seconds * (a.right - b.left) / b.width] })""",
        [track, seconds],
    )
    return found


# ---- contrast ----------------------------------------------------------------------------------------------

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
    """The texts that are seen on a page, each with its contrast as WCAG 2 computes it (`ratio`)."""
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
