"""Measures the trace viewer at 5,000 questions: the time to write its pages, their size, and how long a
browser takes to open, filter, search and sort them.

    python -m perf.view [--questions 5000] [--work FOLDER] [--output FILE]

The run is synthetic: programs of a dozen lines, every other question refined, 6 to 18 calls each with up to
64 frames, about videos that do not exist (thumbnails cost what decoding costs: perf/decode.py). A second run
is of an agent: 12 rounds of a reply with seven scored segments and a choice, 22 frames a round, each prompt
with all scores before it. The browser is headless Chromium; each time is the median of seven, from the
action to the next painted frame. Needs chromium on the PATH and playwright. Writes perf/view.json.
"""

from __future__ import annotations

import json
import random
import shutil
import statistics
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright
from rich.console import Console
from rich.table import Table

from perf import ROOT
from perf.command import run_command
from perf.recording import write_record
from perf.timing import timed
from videopro.benchmarks.base import ROBUST, Protocol
from videopro.cli import CommandLine, setting
from videopro.question import Answer
from videopro.report.pages.site import Site, write_pages
from videopro.runs import RunFolder, RunTail, run_key
from videopro.traces import (
    AGENT,
    SCHEMA,
    Call,
    Cost,
    Execution,
    Round,
    Segment,
    Step,
    Trace,
    VideoRef,
)

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


@dataclass(frozen=True)
class ViewSettings:
    """How many questions, and where the figures go."""

    questions: int = field(default=5000, metadata=setting("questions of the made-up run"))
    work: Path | None = field(default=None, metadata=setting("scratch folder; unset: a temporary one"))
    output: Path = field(default=ROOT / "perf" / "view.json", metadata=setting("file for the figures"))


COMMAND = CommandLine("perf.view", ViewSettings, summary="Measure the trace viewer with many questions.")

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
    values = {"thing": draw.choice(FAMILIES), "place": f"place {number % 97}", "k": 3, "n": 8}
    rounds = tuple(_round(kind, values, draw) for kind in ("plan", "program_refinement")[: 1 + number % 2])
    final = _answer(rounds[-1])
    return Trace(
        schema=SCHEMA,
        run_key="made-up",
        question_id=f"question_{number:05d}",
        video=VideoRef(f"/nowhere/{number % VIDEOS:04d}.mp4", f"{number % VIDEOS:04d}", "", DURATION),
        question=f"What happens to the {values['thing']} at {values['place']} "
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


def _round(kind: Any, values: dict[str, Any], draw: random.Random) -> Round:
    code = PROGRAM.format(**{**values, "k": draw.randint(1, 5)})
    sure = draw.random()
    letter = draw.choice("ABBC")
    start = draw.uniform(0, DURATION - 60)
    calls = [
        Call(
            "get_informative_clips",
            {"query": values["thing"]},
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
        box = f"[Box(125, 64, 168, 106, {values['thing']!r}, score 0.79)]"
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


def make_agent_trace(number: int, draw: random.Random) -> Trace:
    """A made-up question of an agent that looks into twelve segments."""
    steps: list[Step] = []
    lines: list[str] = []
    for turn in range(12):
        start, parent = draw.uniform(0, DURATION - 100), "" if turn == 0 else str(turn % 7)
        segments = tuple(
            Segment(
                start + 14 * index,
                start + 14 * index + 14,
                f"{parent}.{index}" if parent else str(index),
                parent,
                float(draw.randint(0, 100)),
                f"someone {draw.choice(FAMILIES)} at place {draw.randrange(97)}, and nothing else is seen",
            )
            for index in range(7)
        )
        times = tuple((segment.end, 360.0, 640.0) for segment in segments[:6])
        new_lines = [f"{s.name}: {s.start:.1f}-{s.end:.1f} s, {s.score:.0f}: {s.text}" for s in segments]
        prompt = "\n".join([*_AGENT_PROMPT, *lines, *new_lines])
        scores = {s.name: {"why": s.text, "score": s.score} for s in segments}
        cost = Cost(1.0, {"llm": 0.9}, 6, 1, 2000, 300)
        common: dict[str, Any] = {"prompt": prompt, "round": turn, "cost": cost}
        raw = json.dumps(scores)
        steps.append(Step("reward", "llm", frames=times, raw=raw, parsed=scores, segments=segments, **common))
        memory = tuple((draw.uniform(0, DURATION), 360.0, 640.0) for _ in range(16))
        chosen = {"segment": draw.randrange(7)}
        steps.append(Step("explore", "llm", frames=memory, raw=json.dumps(chosen), parsed=chosen, **common))
        lines += new_lines
    answer = Answer(draw.choice("AB"), raw="A")
    round_ = Round(AGENT, "A", execution=Execution("ok", answer, steps=tuple(steps)))
    sample = make_sample_trace(number, draw)
    return replace(sample, rounds=(round_,), first=answer, final=answer, selected=0, refined=0)


_AGENT_PROMPT = [
    f"Line {n} of a prompt that says at some length what a reply has to look like." for n in range(12)
]


def write_run(folder: Path, traces: Iterator[Trace]) -> RunFolder:
    """A run's folder with these traces."""
    run, identity = RunFolder(folder), {"protocol": Protocol(parser=ROBUST).identity()}
    run.open({"benchmark": "made up", "split": "test", "method": "videopro", "model": "none"}, identity)
    key = run_key(identity)
    run.traces.write_bytes(b"".join(replace(trace, run_key=key).to_line() for trace in traces))
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


def measure(request: ViewSettings) -> None:
    """Write the pages, open them, print the figures and write them."""
    with tempfile.TemporaryDirectory() as scratch:
        work = request.work or Path(scratch)
        draw = random.Random(0)
        count = request.questions
        folder = write_run(work / "run", (make_sample_trace(n, draw) for n in range(count)))
        agents = write_run(work / "agents", (make_agent_trace(n, draw) for n in range(count // 10)))
        with timed() as writing:
            site = write_pages(folder.path, work / "view", max_frames=16)
        tail = RunTail(folder, Protocol(parser=ROBUST))
        tail.refresh()
        with timed() as live:
            tail.summary()
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
    table = Table(title=f"the viewer at {request.questions:,} questions", show_header=False)
    for name, value in results.items():
        if name != "browser_ms":
            table.add_row(name, str(value))
    for name, milliseconds in results["browser_ms"].items():
        table.add_row(name, f"{milliseconds} ms")
    Console().print(table)


if __name__ == "__main__":
    run_command(COMMAND, measure)
