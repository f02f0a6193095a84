"""Measures the trace viewer at 5,000 questions: the time to write its pages, their size, and how long a
browser takes to open, filter, search and sort them.

    python perf/view.py [--questions 5000] [--work FOLDER]

The run is synthetic: programs of a dozen lines, every other question refined, 6 to 18 calls each with up to
64 frames, about videos that do not exist (thumbnails cost what decoding costs: perf/decode.py). The browser
is headless Chromium; each time is the median of seven, from the action to the next painted frame. Needs
chromium on the PATH and playwright. Writes perf/view.json.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright
from rich.console import Console
from rich.table import Table

from videopro.benchmarks.base import ROBUST, Protocol
from videopro.question import Answer
from videopro.runs import RunFolder, RunTail
from videopro.traces import SCHEMA, Call, Cost, Execution, Round, Trace, VideoRef
from videopro.view.site import write_pages

RESULTS = Path(__file__).with_suffix(".json")
ROUNDS = 7
VIDEOS = 900
DURATION = 3600.0
FAMILIES = ("action", "attribute", "count", "gist", "narration", "order", "sign", "spoken", "story")
PROGRAM = """def execute_command(video, question):
    intervals, clips = get_informative_clips(video, "{thing} at the {place}", top_k={k})
    kept = []
    for clip in clips:
        frames = extract_frames(clip, num_frames={n})
        if query_yn(frames, "Is this the {place}?") == "Yes":
            for frame in frames:
                boxes = detect_object(frame, "{thing}", box_threshold=0.3)
                if boxes:
                    kept.append(crop(frame, boxes[0]))
    if not kept:
        kept = extract_frames(video, num_frames=64)
    return query_mc(kept, question, choices)"""


# Actions in the browser, in JavaScript, and the condition that holds when they are done.
INTERACTIONS = {
    "filter: wrong": (
        "document.querySelector('[data-result=wrong]').click()",
        "[...document.querySelectorAll('.row')].every(row => row.classList.contains('wrong'))",
    ),
    "search": (
        "const box = document.getElementById('search'); box.value = 'place 42 ';"
        "box.dispatchEvent(new Event('input'))",
        "[...document.querySelectorAll('.row b')].every(row => row.textContent.includes('place 42 '))",
    ),
    "sort": ("location.hash = '#/?sort=unsure'", "document.querySelector('.sort select').value === 'unsure'"),
    "open a question": (
        "location.hash = '#/q/' + VIEW.rows[Math.floor(VIEW.rows.length * Math.random())].id",
        "document.querySelector('.program')",
    ),
}


def make_sample_trace(number: int, draw: random.Random) -> Trace:
    """A made-up question with its programs and calls."""
    words = {"thing": draw.choice(FAMILIES), "place": f"place {number % 97}", "k": 3, "n": 8}
    rounds = tuple(_round(kind, words, draw) for kind in ("plan", "program_refinement")[: 1 + number % 2])
    final = _answer(rounds[-1])
    return Trace(
        schema=SCHEMA,
        run_key="made-up",
        question_id=f"question_{number:05d}",
        video=VideoRef(f"/nowhere/{number % VIDEOS:04d}.mp4", f"{number % VIDEOS:04d}", "", DURATION),
        question=f"What happens to the {words['thing']} at {words['place']} "
        f"after the {draw.choice(FAMILIES)}?",
        choices=("it stays", "it leaves", "it breaks", "it is hidden"),
        gold=draw.choice("ABBB"),
        groups={"family": draw.choice(FAMILIES), "duration": draw.choice(("short", "medium", "long"))},
        rounds=rounds,
        first=_answer(rounds[0]),
        final=final,
        selected=len(rounds) - 1,
        refined=len(rounds) - 1,
        official=final.letter,
        cost=Cost(draw.uniform(1, 30), {"backbone": 1.0}, 80, 20, 5000, 400),
        evidence=((600.0, 620.0),),
    )


def _round(kind: Any, words: dict[str, Any], draw: random.Random) -> Round:
    code = PROGRAM.format(**{**words, "k": draw.randint(1, 5)})
    sure = draw.random()
    letter = draw.choice("ABBC")
    start = draw.uniform(0, DURATION - 60)
    calls = [
        Call(
            "get_informative_clips",
            {"query": words["thing"]},
            "([(70, 80)])",
            (),
            0.1,
            False,
            ((start, start + 10),),
            2,
        )
    ]
    for _ in range(draw.randint(2, 8)):
        frame = (start + draw.uniform(0, 10), 360.0, 640.0)
        box = f"[Box(125, 64, 168, 106, {words['thing']!r}, score 0.79)]"
        calls.append(
            Call(
                "query_yn",
                {"frames": "[8 frames]"},
                "Answer('Yes', confidence 0.997)",
                (frame,) * 8,
                0.2,
                line=6,
            )
        )
        calls.append(Call("detect_object", {"frame": "Frame"}, box, (frame,), 0.2, line=8))
    frames = tuple((start + n / 4, 360.0, 640.0) for n in range(64))
    calls.append(
        Call(
            "query_mc",
            {"frames": "[64 frames]"},
            f"Answer({letter!r}, confidence {sure:.3f})",
            frames,
            1.0,
            line=13,
        )
    )
    letters = {choice: sure if choice == letter else (1 - sure) / 3 for choice in "ABCD"}
    execution = Execution(
        "ok", Answer(letter, sure, letters, letter), calls=tuple(calls), cost=Cost(3.0, {}, 80, 20, 5000, 1)
    )
    return Round(
        kind, f"<planning>\nLook for it.\n</planning>\n<code>\n{code}\n</code>", code, execution, "program"
    )


def _answer(round_: Round) -> Answer:
    assert round_.execution is not None
    return round_.execution.answer


def time_to_paint(page: Page, action: str, until: str) -> float:
    """Median milliseconds from an action until a condition holds and is painted; both are JavaScript."""
    script = """([action, until]) => new Promise((resolve) => {
        const began = performance.now();
        const holds = new Function(`return ${until}`);
        new Function(action)();
        const end = () => resolve(performance.now() - began);
        const look = () => requestAnimationFrame(holds() ? end : look);
        look();
    })"""
    times = []
    for _ in range(ROUNDS):
        page.evaluate("location.hash = '#/'")
        page.wait_for_selector(".row")
        page.wait_for_timeout(50)
        times.append(page.evaluate(script, [action, until]))
    return float(statistics.median(times))


def browse(index: Path) -> dict[str, float]:
    """The browser's times, in ms."""
    chromium = shutil.which("chromium")
    if chromium is None:
        raise SystemExit("error: needs chromium on the PATH: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        opening = []
        for _ in range(ROUNDS):
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            page.set_default_timeout(120_000)  # The machine may be busy.
            page.goto(index.as_uri())
            page.wait_for_selector(".row")
            opening.append(page.evaluate("performance.now()"))
        numbers = {
            "open the list": statistics.median(opening),
            **{name: time_to_paint(page, action, until) for name, (action, until) in INTERACTIONS.items()},
        }
        browser.close()
    return numbers


def main() -> None:
    parser = argparse.ArgumentParser(description="Measures the trace viewer with many questions.")
    parser.add_argument("--questions", type=int, default=5000)
    parser.add_argument("--work", type=Path, help="scratch folder; default: a temporary one")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        work = given.work or Path(scratch)
        folder = RunFolder(work / "run")
        folder.open(
            {"benchmark": "made up", "split": "test", "method": "videopro", "model": "none"},
            {"protocol": Protocol(parser=ROBUST).identity()},
        )
        draw = random.Random(0)
        folder.traces.write_bytes(
            b"".join(make_sample_trace(n, draw).to_line() for n in range(given.questions))
        )
        began, worked = time.perf_counter(), time.process_time()
        site = write_pages(folder.path, work / "view", max_frames=16)
        seconds, worked = time.perf_counter() - began, time.process_time() - worked
        tail = RunTail(folder, Protocol(parser=ROBUST))
        tail.refresh()
        began = time.perf_counter()
        tail.summary()
        live = time.perf_counter() - began
        pages = [path.stat().st_size for path in (site.path / "data" / "questions").iterdir()]
        results: dict[str, Any] = {
            "questions": given.questions,
            "traces_mb": round(folder.traces.stat().st_size / 1e6, 1),
            "write_pages_s": round(seconds, 1),
            "write_pages_cpu_s": round(worked, 1),
            "index_mb": round((site.path / "data" / "index.js").stat().st_size / 1e6, 2),
            "page_kb_median": round(statistics.median(pages) / 1e3, 1),
            "pages_mb": round(sum(pages) / 1e6, 1),
            "live_numbers_s": round(live, 2),
            "browser_ms": {name: round(value) for name, value in browse(site.index).items()},
        }
    RESULTS.write_text(json.dumps(results, indent=2) + "\n")
    table = Table(title=f"the viewer at {given.questions:,} questions", show_header=False)
    for name, value in {**results, **results.pop("browser_ms")}.items():
        if name != "browser_ms":
            table.add_row(
                name, str(value) + (" ms" if isinstance(value, int) and name != "questions" else "")
            )
    Console().print(table)


if __name__ == "__main__":
    main()
