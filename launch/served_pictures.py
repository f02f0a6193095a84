"""The pictures of docs/serve: a conversation on the page of `videopro serve` and an answer in detail, from
the real server with the pocket model."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from videopro.backbones import find_video

VIDEO = "long_007"
QUESTION = "Which color does the triangle at the cave have?"
SIZES = ((1440, 900), (390, 844))
_ADDRESS = re.compile(r"http://[\d.:]+/?")


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """A server that keeps its videos and answers in a folder; its address."""
    command = ["videopro", "serve", "--model", "pocket", "--log-level", "warning"]
    videos = find_video(Path(f"pocket:test/{VIDEO}")).parent
    command += ["--folders", str(videos), "--output", str(folder / "serve"), "--port", "0"]
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
    """Ask a question on the page with two methods, and `save(page, name)` the conversation in each size and
    theme, and an answer in detail."""
    page = browser.new_page(viewport={"width": 1440, "height": 900}, color_scheme="light")
    page.set_default_timeout(120_000)
    page.goto(address)
    page.fill("input[type=search]", VIDEO)
    page.click(".video-row")
    page.click(f".known button:has-text('{QUESTION}')")
    page.click("form.ask .primary")
    page.wait_for_selector(".answered")
    page.click(".again button")
    page.wait_for_selector(".answers > .answered >> nth=1")
    conversation = page.url
    page.click(".answer >> text=Details")
    page.wait_for_selector(".rests-on a")
    page.wait_for_load_state("networkidle")
    save(page, "details-1440-light.png")
    page.close()
    for width, height in SIZES:
        for theme in ("light", "dark"):
            size = {"width": width, "height": height}
            page = browser.new_page(viewport=size, color_scheme=theme)
            page.goto(conversation)
            page.wait_for_selector(".answered")
            page.wait_for_load_state("networkidle")
            page.wait_for_timeout(1000)  # The player hides that it was loading.
            page.evaluate("scrollTo(0, 0)")
            save(page, f"conversation-{width}-{theme}.png")
            page.close()
