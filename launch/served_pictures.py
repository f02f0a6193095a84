"""The pictures of docs/serve: the page of `videopro serve` while a question is answered and at its end, from
the real server with the pocket model."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from videopro.backbones import find_video

FILM = "long_007"
QUESTION = "Which color does the triangle at the cave have?"
CHOICES = ("green", "orange", "red", "white")
_ADDRESS = re.compile(r"http://[\d.:]+/?")


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """A server that keeps its films and answers in a folder; its address."""
    command = ["videopro", "serve", "--model", "pocket"]
    films = find_video(Path(f"pocket:test/{FILM}")).parent
    command += ["--folders", str(films), "--output", str(folder / "serve"), "--port", "0"]
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as server:
        try:
            assert server.stdout is not None
            lines = iter(server.stdout.readline, "")
            address = next(match for line in lines if (match := _ADDRESS.search(line)))
            yield address[0].rstrip("/") + "/"
        finally:
            server.terminate()


def take_served(address: str, browser: Any, save: Callable[[Any, str], None]) -> None:
    """Ask a question on the page, and `save(page, name)` a picture in the middle and one at the end."""
    page = browser.new_page(viewport={"width": 1440, "height": 900}, color_scheme="light")
    page.goto(address)
    page.fill(".there input", FILM)
    page.click(".film-row")
    page.wait_for_selector(".picked img")
    page.fill("#question", QUESTION)
    page.click("text=Add choices")
    for choice in CHOICES:
        page.keyboard.type(choice)
        page.keyboard.press("Enter")
    page.click("form.ask .primary")
    page.wait_for_selector("[data-round='1'] .call", timeout=120_000)
    # The first program is done, and the next one is being written.
    page.wait_for_selector("[data-round='1'] .outcome", timeout=120_000)
    page.wait_for_timeout(500)
    save(page, "middle-1440-light.png")
    page.wait_for_selector(".ask-on", timeout=120_000)
    page.wait_for_load_state("networkidle")
    page.locator(".rests-on a").first.click()
    page.wait_for_timeout(1500)
    page.evaluate("scrollTo(0, 0)")
    save(page, "end-1440-light.png")
    page.close()
