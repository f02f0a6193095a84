"""Which rows are left where a dataset has more than its limits, and which videos are for which dataset."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.support.stub_server import StubServer
from tests.support.synthesis import (
    NO_MODELS,
    answered,
    crashed,
    flags,
    load_moody,
    make_questions,
    native,
    program,
    record,
    rows,
)
from videopro.data_synthesis.datasets import Datasets, RowLimits, assemble, limited
from videopro.data_synthesis.decontamination import EvaluationVideos
from videopro.data_synthesis.questions import VideoSplit
from videopro.data_synthesis.run import main
from videopro.traces import VideoRef, read_traces


def sft(kind: str, count: int, family: str = "x", mode: str = "program") -> list[dict[str, Any]]:
    return [
        {"id": f"{kind}-{family}-{i}", "kind": kind, "family": family, "mode": mode} for i in range(count)
    ]


def kept(rows: list[dict[str, Any]], limits: RowLimits) -> Datasets:
    return limited(Datasets(rows), limits, RowLimits(), seed=0)


def test_a_total_is_shared_evenly_over_the_rules_and_over_families() -> None:
    """R3 has 3 rows of its share of 10; the 37 left are shared as 12, 12 and 13, and R4 has too few again."""
    rows = [*sft("native", 50), *sft("program", 40, "x"), *sft("program", 4, "y"), *sft("bug_fix", 3)]
    rows += [*sft("native_refinement", 6), *sft("program_refinement", 2)]
    made = kept(rows, RowLimits(40))
    # Smallest first: R3 3 of 40/4, R4 8 of 37/3, then 29 for R1 and R2: 14 and 15.
    assert Counter(row["kind"] for row in made.sft) == {
        "native": 15,
        "program": 14,
        "bug_fix": 3,
        "native_refinement": 6,
        "program_refinement": 2,
    }
    # Of R2's 14, family y has only 4.
    assert Counter(row["family"] for row in made.sft if row["kind"] == "program") == {"x": 10, "y": 4}
    assert made.rejected == {"sft: beyond sft_rows": 65}
    assert [row for row in rows if row in made.sft] == made.sft, "in the order of the file"
    assert kept(list(reversed(rows)), RowLimits(40)).sft == list(reversed(made.sft))


def test_caps_are_by_kind_rule_and_mode() -> None:
    rows = [*sft("native", 9, mode="native"), *sft("bug_fix", 5, mode="native"), *sft("bug_fix", 4, "y")]
    rows += [*sft("native_refinement", 6), *sft("program_refinement", 3)]
    caps = {"native": 7, "R4": 5, "mode_native": 10}
    made = kept(rows, RowLimits(caps=caps))
    assert made.rejected == {
        "sft: beyond the cap of native": 2,
        "sft: beyond the cap of R4": 4,
        "sft: beyond the cap of mode_native": 2,
    }
    assert sum(row["mode"] == "native" for row in made.sft) == 10
    prompts = [
        {"id": f"{i}", "kind": "plan", "family": None, "oracle_mode": mode}
        for i, mode in enumerate(["native"] * 6 + ["program"] * 2)
    ]
    grpo = RowLimits(caps={"mode_native": 1, "plan": 5})
    made = limited(Datasets([], prompts), RowLimits(), grpo, seed=0)
    assert [row["oracle_mode"] for row in made.grpo] == ["native", "program", "program"]
    assert made.rejected == {"grpo: beyond the cap of mode_native": 5}


# ---- the two sides -----------------------------------------------------------------------------------------


def test_a_videos_side_depends_on_nothing_but_its_key_the_seed_and_the_share() -> None:
    keys = [f"v{i}" for i in range(2000)]
    split = VideoSplit(0.4, 0)
    of_sft = {key for key in keys if split.serves(key, "sft")}
    assert of_sft.isdisjoint(key for key in keys if split.serves(key, "grpo"))
    # Four standard deviations of 2,000 draws are 88.
    assert len(of_sft) == pytest.approx(800, abs=88)
    assert of_sft < {key for key in keys if VideoSplit(0.6, 0).serves(key, "sft")}
    assert of_sft != {key for key in keys if VideoSplit(0.4, 1).serves(key, "sft")}
    # Recorded data depends on these draws: SHA-256 of "0 sft", a zero byte and the key.
    assert [key for key in keys[:12] if key in of_sft] == SFT_OF_TWELVE


SFT_OF_TWELVE = ["v3", "v4", "v7", "v9", "v10"]
"""By `printf '0 sft\\0v3' | sha256sum`, which begins with 5a: 0.35; of v1 with 79: 0.47."""


def test_rows_of_the_two_sides_share_no_video_not_even_under_two_names(tmp_path: Path) -> None:
    names = [f"v{i}" for i in range(12)]
    traces = [
        record(
            native("B", 0.9),
            program(answered("A", 0.8)),
            program(crashed(), 3),
            program(answered("A", 0.9), 4, kind="bug_fix", refines=2),
            question_id=name,
            video=VideoRef(f"/videos/{name}.mp4", name, "v3" if name == "v0" else name, 60.0),
        )
        for name in names
    ]
    split = VideoSplit(0.4, 0)
    made = assemble(
        traces, tau=0.75, source="s", folder=tmp_path, excluded=EvaluationVideos(), seeds={}, split=split
    )
    assert {row["question_id"] for row in made.sft} == set(SFT_OF_TWELVE)
    assert {row["question_id"] for row in made.grpo} == set(names) - {*SFT_OF_TWELVE, "v0"}
    assert made.rejected["question: its video is for SFT under another name"] == 1


def test_only_videos_for_sft_are_asked_for_refinements(tmp_path: Path, stub: StubServer) -> None:
    """Six videos with one question each, of four colours: v0 is v4 under another name."""
    make_questions(tmp_path / "b", videos=6, questions=1)
    out = tmp_path / "out"
    words = flags(tmp_path / "b", out, stub, "--sft-share", "0.4", "--grpo-programs", "1")
    assert main(words, load=load_moody) == 0
    of_sft = {row["question_id"] for row in rows(out, "sft.jsonl")}
    of_grpo = {row["question_id"] for row in rows(out, "grpo.jsonl")}
    assert (of_sft, of_grpo) == ({"v2q0", "v4q0"}, {"v1q0", "v3q0", "v5q0"})
    for trace in read_traces(out / "records.jsonl"):
        kinds = Counter(turn.prompt_kind for turn in trace.rounds)
        if trace.question_id not in of_sft:
            assert kinds == {"native": 1, "plan_program": 1}
        else:
            assert (kinds["native"], kinds["plan_program"]) == (1, 4)


def test_without_programs_no_teacher_is_needed(root: Path, tmp_path: Path) -> None:
    """Nine questions: native answers are right and sure of 0, unsure of 1, wrong about 2."""
    out = tmp_path / "out"
    words = ["--source", "jsonl", "--root", str(root), "--model", "m", "--output", str(out)]
    assert main([*words, *NO_MODELS, "--programs", "0"], load=load_moody) == 0
    assert Counter(row["kind"] for row in rows(out, "sft.jsonl")) == {"native": 3}
    prompts = rows(out, "grpo.jsonl")
    assert Counter(row["kind"] for row in prompts) == {"plan": 9, "native_refinement": 6}
    assert Counter(row["oracle_mode"] for row in prompts if row["kind"] == "plan") == {
        "native": 3,
        "program": 6,
    }
    # A teacher that is given is not asked, and it is the same synthesis.
    again = [*words, *NO_MODELS, "--programs", "0", "--teacher", "pocket-teacher"]
    assert main(again, load=load_moody) == 0
