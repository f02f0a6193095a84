"""Measures the trace viewer at 5,000 questions: the time to write its pages, their size, and how long a
browser takes to open, filter, search and sort them.

    python -m perf.view [--questions 5000] [--work FOLDER] [--output FILE]
    python -m perf.view --serving 50000     # only this part; the other figures stay as they were recorded

The run repeats stored traces: `videopro` with the teacher on pocket's test split, under new ids, about videos
that are not there (thumbnails cost what decoding costs: perf/decode.py). A second run, of a tenth of the
questions, repeats those of an agent (VCA). The browser is headless Chromium; each time is the median of
seven, from the action to the next painted frame. `--serving` compares two commands on a run of so many
questions: `videopro view --no-pictures`, which writes all pages, and `videopro view --port`, which makes each
when it is asked for: the seconds until the first page can be read, and the peak memory.

Needs chromium on the PATH and playwright. Writes perf/view.json.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import cycle
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright

from perf import ROOT
from perf.command import run_command
from perf.recording import write_record
from perf.stored import traces as stored
from perf.timing import timed
from videopro.benchmarks.base import ROBUST, Protocol
from videopro.cli import setting
from videopro.report.pages.site import Site, write_pages
from videopro.runs import RunFolder, RunTail, run_key
from videopro.traces import Trace

ROUNDS = 7


@dataclass(frozen=True)
class ViewSettings:
    """Measure the trace viewer with many questions."""

    questions: int = field(default=5000, metadata=setting("questions of the run"))
    serving: int = field(
        default=0, metadata=setting("questions of the run that --port serves; 0: measure the pages on disk")
    )
    work: Path | None = field(default=None, metadata=setting("scratch folder; unset: a temporary one"))
    output: Path = field(default=ROOT / "perf" / "view.json", metadata=setting("file for the figures"))


# Actions in the browser, in JavaScript, and the condition that holds when they are done.
INTERACTIONS = {
    "filter: wrong": (
        "document.querySelector('[data-result=wrong]').click()",
        "[...document.querySelectorAll('.row')].every(row => row.classList.contains('wrong'))",
    ),
    "search": (
        "const box = document.getElementById('search'); box.value = '(place 42)';"
        "box.dispatchEvent(new Event('input'))",
        "[...document.querySelectorAll('.row b')].every(row => row.textContent.includes('(place 42)'))",
    ),
    "sort": ("location.hash = '#/?sort=unsure'", "document.querySelector('.sort select').value === 'unsure'"),
    "open a question": (
        "location.hash = '#/q/' + VIEW.rows[Math.floor(VIEW.rows.length * Math.random())].id",
        "document.querySelector('.program')",
    ),
}


def write_run(folder: Path, stored: Sequence[Trace], count: int) -> RunFolder:
    """A run's folder with `count` traces: the stored ones, again and again, each as another question."""
    run, identity = RunFolder(folder), {"protocol": Protocol(parser=ROBUST).identity()}
    run.open({"benchmark": "made up", "split": "test", "method": "videopro", "model": "none"}, identity)
    key = run_key(identity)
    lines = []
    for number, trace in zip(range(count), cycle(stored), strict=False):
        video = replace(trace.video, path=f"/nowhere/{trace.video.key}.mp4")
        asked = f"{trace.question} (place {number % 97})"
        made = replace(trace, run_key=key, question_id=f"question_{number:05d}", video=video, question=asked)
        lines.append(made.to_line())
    run.traces.write_bytes(b"".join(lines))
    return run


def page_sizes(site: Site) -> list[float]:
    """Kilobytes of the questions' files."""
    return [path.stat().st_size / 1e3 for path in (site.path / "data" / "questions").iterdir()]


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


def browse(index: Path, agents: Path) -> dict[str, float]:
    """The browser's times, in ms; `agents`: the index of the agent's run."""
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
        page.goto(agents.as_uri())
        action, _ = INTERACTIONS["open a question"]
        numbers["open an agent's question"] = time_to_paint(page, action, "document.querySelector('.steps')")
        browser.close()
    return numbers


def _peak_mb(process: subprocess.Popen[str]) -> int:
    """Waits for the end of a command, and returns its peak memory."""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return round(usage.ru_maxrss / 1e3)


def compare_serving(run: Path, output: Path) -> dict[str, dict[str, float]]:
    """Both commands on a run: what they take until the first page can be read, and in all."""
    command = [sys.executable, "-m", "videopro", "view", str(run)]
    began = time.monotonic()
    writing = subprocess.Popen([*command, "--output", str(output), "--no-pictures"], text=True)
    peak = _peak_mb(writing)
    files = [path.stat().st_size for path in output.rglob("*") if path.is_file()]
    seconds = round(time.monotonic() - began, 1)
    written = {"first_page_s": seconds, "peak_mb": peak, "files": len(files), "mb": round(sum(files) / 1e6)}
    began = time.monotonic()
    serving = subprocess.Popen([*command, "--port", "0"], stdout=subprocess.PIPE, text=True)
    assert serving.stdout is not None
    address = serving.stdout.readline().split()[1]

    def get(path: str) -> tuple[Any, float]:
        asked = time.monotonic()
        with urllib.request.urlopen(f"{address}/{path}") as reply:
            text = reply.read().decode()
        return json.loads(text[text.index(",") + 1 : text.rindex(");")]), time.monotonic() - asked

    index, _ = get("data/index.js")
    served = {"first_page_s": round(time.monotonic() - began, 1), "rows_at_first": len(index["rows"])}
    while index["progress"]["reading"] or index["next"] < index["count"]:
        index, _ = get(f"data/index.js?after={index['next']}")
    served["all_rows_s"] = round(time.monotonic() - began, 1)
    place = index["columns"].index("page")
    every = get("data/index.js")[0]["rows"]
    times = [get(f"data/questions/{row[place]}.js")[1] for row in every[:: len(every) // ROUNDS]]
    served["question_ms"] = round(1e3 * statistics.median(times))
    serving.send_signal(signal.SIGINT)
    served["peak_mb"] = _peak_mb(serving)
    return {"written": written, "served": served}


def measure_serving(request: ViewSettings) -> None:
    """Compare the commands, and write the figures beside those that are recorded."""
    with tempfile.TemporaryDirectory() as scratch:
        work = request.work or Path(scratch)
        folder = write_run(work / "run", stored("pocket-test", "videopro"), request.serving)
        figures = {"questions": request.serving, **compare_serving(folder.path, work / "view")}
    record = json.loads(request.output.read_text(encoding="utf-8"))
    write_record(request.output, {**record, "serving": figures}, indent=2)
    print(figures)


def measure(request: ViewSettings) -> None:
    """Write the pages, open them, print the figures and write them."""
    if request.serving:
        measure_serving(request)
        return
    with tempfile.TemporaryDirectory() as scratch:
        work = request.work or Path(scratch)
        count = request.questions
        folder = write_run(work / "run", stored("pocket-test", "videopro"), count)
        agents = write_run(work / "agents", stored("pocket-compare", "16/vca"), count // 10)
        with timed() as writing:
            site = write_pages(folder.path, work / "view", max_frames=16)
        tail = RunTail(folder, Protocol(parser=ROBUST))
        tail.refresh()
        with timed() as live:
            tail.headline()
        pages = page_sizes(site)
        of_agents = write_pages(agents.path, work / "view_agents", max_frames=16)
        agent_pages = page_sizes(of_agents)
        with timed() as browsing:
            browser = browse(site.index, of_agents.index)
        results: dict[str, Any] = {
            "questions": request.questions,
            "traces_mb": round(folder.traces.stat().st_size / 1e6, 1),
            "write_pages_s": round(writing.wall_s, 1),
            "write_pages_cpu_s": round(writing.cpu_s, 1),
            "index_mb": round((site.path / "data" / "index.js").stat().st_size / 1e6, 2),
            "page_kb_median": round(statistics.median(pages), 1),
            "pages_mb": round(sum(pages) / 1e3, 1),
            "agent_questions": len(agent_pages),
            "agent_trace_kb_mean": round(agents.traces.stat().st_size / 1e3 / len(agent_pages), 1),
            "agent_page_kb_median": round(statistics.median(agent_pages), 1),
            "live_numbers_s": round(live.wall_s, 2),
            "live_numbers_cpu_s": round(live.cpu_s, 2),
            "browser_s": round(browsing.wall_s, 1),
            "browser_cpu_s": round(browsing.cpu_s, 1),
            "browser_ms": {name: round(value) for name, value in browser.items()},
        }
    write_record(request.output, results, indent=2)
    for name, value in results.items():
        print(f"{name}: {value}")


if __name__ == "__main__":
    run_command(ViewSettings, measure)
