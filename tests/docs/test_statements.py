"""What README and docs state of what ran where, how long and how good is what the records say.

`<!-- said from FILE: TITLE -->` stands above a paragraph or list that is made of a record
(perf/recorded.py).
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from perf.recorded import MARK, STATEMENT, pages, statement, templates
from perf.stored import compared, configs, on_val, parts_measured, repairs, written
from tests.support import ROOT

RESULTS = ROOT / "docs" / "results"
RAN: dict[str, Any] = yaml.safe_load((ROOT / "perf" / "ran.yaml").read_text(encoding="utf-8"))
GPU: dict[str, Any] = json.loads((ROOT / "perf" / "gpu.json").read_text(encoding="utf-8"))


def marked() -> list[tuple[Path, str, str, str]]:
    found = []
    for page in pages():
        text = page.read_text(encoding="utf-8")
        marks = list(STATEMENT.finditer(text))
        assert len(marks) == text.count("<!-- said from "), f"{page}: a mark without its text"
        found += [(page, mark["file"], mark["title"], mark["text"]) for mark in marks]
    return found


@pytest.mark.parametrize(("page", "file", "title", "text"), marked(), ids=lambda value: str(value)[-60:])
def test_a_statement_is_the_recorded_one(page: Path, file: str, title: str, text: str) -> None:
    assert text.split() == statement(file, title).split()


def test_every_template_stands_on_a_page() -> None:
    texts = [page.read_text(encoding="utf-8") for page in pages()]
    marks = [mark for text in texts for kind in (MARK, STATEMENT) for mark in kind.finditer(text)]
    assert templates().keys() - {(mark["file"], mark["title"]) for mark in marks} == set()


# ---- what ran where ----------------------------------------------------------------------------------------


def test_what_ran_on_a_gpu_is_what_its_record_has() -> None:
    """A row says that something ran on a GPU if and only if it names parts that have figures, and every part
    that has figures is said of some row."""
    named: set[str] = set()
    for row in RAN["rows"]:
        assert bool(row.get("gpu")) == bool(row.get("gpu_parts")), row["path"]
        assert set(row.get("gpu_parts", [])) <= set(parts_measured()), row["path"]
        named |= set(row.get("gpu_parts", []))
    assert named == {letter for letter, part in GPU["parts"].items() if '"figures"' in json.dumps(part)}
    assert set(GPU["parts"]) <= set(RAN["gpu_check"])


def test_a_place_is_said_only_of_what_ran_there() -> None:
    cells = {"here": "here", "random": "here", "gpu": "gpu", "never": "never"}
    for row in RAN["rows"]:
        assert set(row) <= {"path", "here", "gpu", "never", "gpu_parts", "live_engine", "readme"}, row
        assert all(row.get(cells[place]) for place in row.get("readme", {})), row["path"]


def test_the_live_engine_is_the_one_that_was_measured() -> None:
    engine = json.loads((ROOT / "perf" / "served.json").read_text())["engine"]
    named = f"{engine['name']} {'.'.join(engine['version'].split('.')[:2])}".replace("vllm", "vLLM")
    rows = [row["here"] for row in RAN["rows"] if row.get("live_engine")]
    assert len(rows) > 1
    assert all(re.findall(r"vLLM [\d.]+", here) == [named] for here in rows)


# ---- how good ----------------------------------------------------------------------------------------------


def test_faults_are_counted_as_in_the_stored_summary() -> None:
    """The summary of the run counts, by fault, the questions that it refined, and those right before and
    after; each question that refinement corrects or loses is one of these."""
    by_fault = json.loads((RESULTS / "pocket-test" / "videopro.json").read_text())["repairs"]["by_fault"]
    counts = repairs()
    programs, faulty, repaired, of_faulty = (
        counts[name] for name in ("programs", "faulty", "repaired", "repaired_faulty")
    )
    assert faulty == sum(found["n"] for kind, found in by_fault.items() if kind != "none")
    assert faulty < programs <= sum(found["n"] for found in by_fault.values())
    gained = {kind: found["right_after"] - found["right_before"] for kind, found in by_fault.items()}
    assert of_faulty >= sum(gained.values()) - gained["none"]
    assert repaired - of_faulty >= gained["none"]
    assert repaired <= sum(found["repaired"] for found in by_fault.values())


def test_sampled_runs_are_counted_as_in_their_summaries() -> None:
    """Under each seed, if the run has no other questions than those of all seeds; well-formed first programs
    are counted by hand."""
    found, compared_runs = compared("test")["sampled at 0.7"], 0
    for seed, share in enumerate(found["seeds"]):
        summary = json.loads((RESULTS / "pocket-sampled" / f"test-{seed}.json").read_text())
        if summary["n"] == found["questions"]:
            assert share == pytest.approx(summary["accuracy"])
            compared_runs += 1
    assert compared_runs > 0
    assert compared("test")["greedy"]["questions"] == found["questions"]
    val = on_val()["greedy"]
    summary = json.loads((RESULTS / "pocket-sampled" / "val-greedy.json").read_text())
    assert (val["questions"], val["accuracy"]) == (summary["n"], pytest.approx(summary["accuracy"]))
    assert val["well_formed"] == 1.0


# How a page names the decoding of the runs behind its tables.
_WORDS = {"greedy": r"greed(?:y|ily)", "teacher": r"teacher", "sampled": r"sampled"}


def test_every_table_of_answers_names_its_decoding() -> None:
    """In its section, or before the page's first section."""
    unnamed = []
    for page in pages():
        intro, *sections = re.split(r"^(?=## )", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
        for section in [intro, *sections]:
            folders = set(re.findall(r"<!-- from (?:docs/results/)?(pocket-[\w-]+)/", section))
            for folder in folders:
                if not (RESULTS / folder / "traces.tar.xz").exists():
                    continue
                wanted = {written(config).partition(" at ")[0] for config in configs(folder).values()} - {""}
                unnamed += [
                    f"{page.relative_to(ROOT)}, {section.splitlines()[0]}: {how}"
                    for how in sorted(wanted)
                    if not re.search(_WORDS[how], intro + section, re.IGNORECASE)
                ]
    assert unnamed == []
