"""Makes the pictures of docs/view, docs/serve and docs/results/first-use: python launch/pictures.py FOLDER

The runs that they show are made in FOLDER first, or resumed: two minutes on two cores. Needs the set-up of
`launch/test.sh` (chromium and playwright). The pictures of VideoAgent and Deep Video Discovery are not made
here: their agents' replies were written by hand.
"""

from __future__ import annotations

import io
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from one_question import draw
from PIL import Image
from playwright.sync_api import sync_playwright
from served_pictures import serving, take_served

DOCS = Path(__file__).resolve().parent.parent / "docs"
VIEW, SERVE, FIRST_USE = DOCS / "view", DOCS / "serve", DOCS / "results" / "first-use"

LVAGENT = "[pocket+pocket-lv-looks,pocket+pocket-lv-times,pocket+pocket-lv-words]"
RUNS = (
    "compare --config pocket --output demo",
    "infer --benchmark pocket --model pocket --ids test_short_016_shape --output vca --method vca"
    " --backbone adapter=pocket-vca --options preset=equal temperature=0 max_new_tokens=200 max_rounds=2",
    "infer --benchmark pocket --model pocket --ids test_long_013_color --output lvagent --method lvagent"
    f" --options preset=equal agents={LVAGENT} max_new_tokens=64",
    "infer --benchmark pocket --model pocket --ids test_long_015_spoken --output refined --method videopro"
    " --planner pocket-teacher",
    "view demo/videopro",
    "view vca",
    "view lvagent",
    "report demo/native demo/videopro --output report",
)
SIZES = ((1440, 900), (390, 844))
QUESTION = "demo/videopro/view/index.html#/q/test_long_007_color"


@dataclass(frozen=True)
class Picture:
    """A page, and the size of its window."""

    file: Path
    page: str
    width: int = 1280
    height: int = 900
    dark: bool = False


def pictures() -> Iterator[Picture]:
    """All that the documentation shows."""
    yield Picture(VIEW / "question.png", f"{QUESTION}?t=924", height=940)
    yield Picture(VIEW / "vca.png", "vca/view/index.html#/q/test_short_016_shape", height=1500)
    yield Picture(VIEW / "lvagent.png", "lvagent/view/index.html#/q/test_long_013_color", height=1500)
    for name, page in (("question", QUESTION), ("report", "report/report.html")):
        for width, height in SIZES:
            for dark in (False, True):
                file = FIRST_USE / f"{name}-{width}-{'dark' if dark else 'light'}.png"
                yield Picture(file, page, width, height, dark=dark)


def take(picture: Picture, browser: Any, folder: Path) -> None:
    """Write the picture."""
    page = browser.new_page(
        viewport={"width": picture.width, "height": picture.height},
        color_scheme="dark" if picture.dark else "light",
    )
    file, _, anchor = picture.page.partition("#")
    page.goto(f"{(folder / file).as_uri()}#{anchor}")
    page.wait_for_load_state("networkidle")
    page.wait_for_function("[...document.querySelectorAll('video')].every((video) => video.readyState >= 2)")
    page.wait_for_timeout(800)  # The player hides that it was loading.
    save(page, picture.file)
    page.close()


def save(page: Any, file: Path) -> None:
    """Write what a page shows in 256 colours, which a page of text needs no more than."""
    image = Image.open(io.BytesIO(page.screenshot()))
    file.parent.mkdir(exist_ok=True)
    image.convert("RGB").quantize(256).save(file, optimize=True)
    print(f"{file.relative_to(DOCS)}: {file.stat().st_size // 1000} kB")


def main(argv: Sequence[str]) -> int:
    folder = Path(argv[0]).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    for run in RUNS:
        subprocess.run(["videopro", *shlex.split(run)], cwd=folder, check=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for picture in pictures():
            take(picture, browser, folder)
        with serving(folder) as address:
            take_served(address, browser, lambda page, name: save(page, SERVE / name))
    drawing = VIEW / "one_question.svg"
    drawing.write_text(draw(folder / "refined"), encoding="utf-8")
    print(f"{drawing.relative_to(DOCS)}: {drawing.stat().st_size // 1000} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
