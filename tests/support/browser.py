"""Headless Chromium, for tests of pages; axe-core finds what keeps people from reading or using one.

Needs `chromium` on the PATH (Debian's package of that name; `launch/test.sh all` installs it where it can)
and playwright, which drives it; without them the tests are skipped.
"""

import importlib.util
import io
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.resources import files
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
    for videos, which are played from where they are."""
    wrong: list[str] = []
    contexts = []

    def open_page(home: str, path: str, *, wrong_is_fine: bool = False, **options: Any) -> Any:
        context = browser.new_context(**{"viewport": {"width": width, "height": 900}, **options})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(60_000)  # Other processes may share the cores.
        page.requested, page.videos = [], []
        if not wrong_is_fine:
            page.on("pageerror", lambda error: wrong.append(str(error)))

        def note(request: Any) -> None:
            asked = page.videos if request.resource_type == "media" else page.requested
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


# ---- accessibility -----------------------------------------------------------------------------------------

# Letters, numbers and symbols are texts here, whose contrast counts.
_AXE = """async () => {
  const { violations } = await axe.run({
    resultTypes: ["violations"],
    rules: { "target-size": { enabled: true } },
    checks: { "color-contrast": { options: { ignoreLength: true, ignoreUnicode: false } } },
  });
  return violations.flatMap(({ id, impact, nodes }) =>
    nodes.map(({ target }) => `${id} (${impact}): ${target.join(" ")}`));
}"""


def violations(page: Any) -> list[str]:
    """What axe-core finds wrong with a page as it stands: a line `theme rule (impact): selector` each.

    In both themes, and all of its rules count: WCAG 2.0 to 2.2 at A and AA, and its best practices.
    """
    if not page.evaluate("'axe' in window"):
        page.evaluate(files("axe_playwright_python").joinpath("axe.min.js").read_text())
    # What a bar covers as the page is scrolled just now would count as too small to click.
    page.evaluate("scrollTo(0, 0)")
    theme = "document.documentElement.dataset.theme"
    chosen = page.evaluate(theme)
    found: list[str] = []
    for name in ("light", "dark"):
        page.evaluate(f"{theme} = '{name}'")
        found += [f"{name} {line}" for line in page.evaluate(_AXE)]
    page.evaluate(f"{theme} = '{chosen}'")
    return found
