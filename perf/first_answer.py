"""From a film to an answer whose evidence plays: what is typed and clicked, and how long that takes.

    python -m perf.first_answer [--output perf/first_answer.json]

A pocket film with its subtitles, its question and four choices, `videopro` with the pocket model, a new cache
for each way, so that each makes its own index. The browser is driven by playwright, which needs no time to
read or to aim: seconds are those of the machine. Where no way plays the film, the last row says what is there
instead. One run of each.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perf import ROOT
from perf.command import run_command
from perf.recording import write_record
from videopro.backbones import find_video
from videopro.cli import setting

FILM = "long_007"
QUESTION = "Which color does the triangle at the cave have?"
CHOICES = ("green", "orange", "red", "white")
_PLAYS = "[...document.querySelectorAll('video')].some(one => !one.paused && one.currentTime > 0)"
_WAIT = 180_000


@dataclass(frozen=True)
class FirstAnswerSettings:
    """Measure the way from a film to an answer whose evidence plays."""

    output: Path = field(default=ROOT / "perf" / "first_answer.json", metadata=setting("JSON file"))


class Way:
    """What was typed and clicked on one way, and the seconds since its beginning."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.commands: list[str] = []
        self.files_written = 0
        self.clicks = 0
        self.answer_s: float | None = None
        self.evidence_s: float | None = None
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return round(time.monotonic() - self._began, 1)

    @property
    def environment(self) -> dict[str, str]:
        """With a cache of its own."""
        return {**os.environ, "VIDEOPRO_CACHE": str(self.folder / "cache"), "OMP_NUM_THREADS": "2"}

    def run(self, *words: str) -> None:
        """Run a command of `videopro`."""
        self.commands.append(" ".join(("videopro", *words)))
        command = [sys.executable, "-m", "videopro", *words]
        subprocess.run(command, cwd=self.folder, env=self.environment, check=True, capture_output=True)

    def click(self, page: Any, selector: str) -> None:
        """Click what the selector finds first, once it is there."""
        page.locator(selector).first.click(timeout=_WAIT)
        self.clicks += 1

    def record(self) -> dict[str, Any]:
        """For the file."""
        return {
            "commands": self.commands,
            "files_written": self.files_written,
            "clicks": self.clicks,
            "answer_s": self.answer_s,
            "evidence_s": self.evidence_s,
        }


def by_a_run(way: Way, browser: Any) -> None:
    """As before there was a page: a questions file, a run and its viewer."""
    row = {"id": "q1", "video": f"{FILM}.mp4", "question": QUESTION, "choices": list(CHOICES)}
    (way.folder / "questions.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    way.files_written = 1
    run = ("--benchmark", "jsonl", "--root", ".", "--model", "pocket", "--method", "videopro")
    way.run("infer", *run, "--output", "run")
    way.answer_s = way.seconds
    _view(way, browser, "a[href*='q/q1']")


def by_ask(way: Way, browser: Any) -> None:
    """In the terminal, with the question kept as a run."""
    asked = (QUESTION, "--choices", *CHOICES, "--model", "pocket", "--method", "videopro")
    way.run("ask", f"{FILM}.mp4", *asked, "--output", "run")
    way.answer_s = way.seconds
    _view(way, browser, "a[href*='#/q/']")


def _view(way: Way, browser: Any, question: str) -> None:
    """The run's pages, opened at the link to its question; the film at the time of a call."""
    way.run("view", "run")
    page = browser.new_page()
    page.goto((way.folder / "run" / "view" / "index.html").as_uri())
    way.click(page, question)
    _play(way, page, ".call a[href*='t=']")


def by_the_page(way: Way, browser: Any) -> None:
    """On the page of the server."""
    words = ("serve", "--model", "pocket", "--method", "videopro", "--folders", ".", "--port", "0")
    way.commands.append(" ".join(("videopro", *words)))
    with _serving(way, words) as address:
        page = browser.new_page()
        page.goto(address)
        way.click(page, ".film-row")
        page.wait_for_selector(".picked img", timeout=_WAIT)
        page.fill("#question", QUESTION)
        way.click(page, "text=Add choices")
        for choice in CHOICES:
            page.keyboard.type(choice)
            page.keyboard.press("Enter")
        way.click(page, "form.ask .primary")
        page.wait_for_selector(".ask-on", timeout=_WAIT)
        way.answer_s = way.seconds
        _play(way, page, ".rests-on a")
        page.close()


WAYS: dict[str, Callable[[Way, Any], None]] = {
    "a questions file, `infer`, `view`": by_a_run,
    "`ask --output`, `view`": by_ask,
    "`serve`, its page": by_the_page,
}


def _play(way: Way, page: Any, evidence: str) -> None:
    way.click(page, evidence)
    page.wait_for_function(_PLAYS, timeout=_WAIT)
    way.evidence_s = way.seconds
    page.close()


@contextmanager
def _serving(way: Way, words: tuple[str, ...]) -> Iterator[str]:
    command = [sys.executable, "-m", "videopro", *words]
    with subprocess.Popen(
        command,
        cwd=way.folder,
        env=way.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as server:
        try:
            assert server.stdout is not None
            for line in server.stdout:
                if match := re.search(r"http://[\d.:]+", line):
                    yield match[0]
                    return
            raise SystemExit("the server did not start")
        finally:
            server.terminate()


def measure(settings: FirstAnswerSettings) -> None:
    """Go each way once, and write the file."""
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium")
    film = find_video(Path(f"pocket:test/{FILM}"))
    load = round(os.getloadavg()[0], 1)
    ways = {}
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as temporary:
        # Chromium's own sandbox does not run as root.
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for number, (name, go) in enumerate(WAYS.items()):
            folder = Path(temporary) / str(number)
            folder.mkdir()
            for ending in (".mp4", ".srt", ".json"):
                if film.with_suffix(ending).exists():
                    shutil.copy(film.with_suffix(ending), folder / f"{FILM}{ending}")
            way = Way(folder)
            go(way, browser)
            ways[name] = way.record()
            print(f"{name}: {ways[name]}", flush=True)
        browser.close()
    write_record(settings.output, {"film": FILM, "load": load, "ways": ways})


if __name__ == "__main__":
    run_command(FirstAnswerSettings, measure)
