"""Which rows are left within limits, which videos are for which dataset, and questions with fewer modules."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.support.stub_server import StubServer, text_of
from tests.support.synthesis import (
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
from videopro.data_synthesis.datasets import Datasets, assemble, limited
from videopro.data_synthesis.decontamination import EvaluationVideos
from videopro.data_synthesis.questions import ModuleDrops, RowReference, VideoSplit
from videopro.data_synthesis.run import main
from videopro.traces import VideoRef, read_traces
from videopro.train.rl import read_grpo_rows


def sft(kind: str, count: int, family: str = "x", mode: str = "program") -> list[dict[str, Any]]:
    about = {"kind": kind, "family": family, "mode": mode}
    return [{"id": f"{kind}-{family}-{i}", **about} for i in range(count)]


def kept(rows: list[dict[str, Any]], most: int) -> Datasets:
    return limited(Datasets(rows), sft=most, grpo=None, seed=0)


def test_a_total_is_shared_evenly_over_the_rules_and_over_families() -> None:
    """R3 has 3 rows of its share of 10; the 37 left are shared as 12, 12 and 13, and R4 has too few again."""
    rows = [*sft("native", 50), *sft("program", 40, "x"), *sft("program", 4, "y"), *sft("bug_fix", 3)]
    rows += [*sft("native_refinement", 6), *sft("program_refinement", 2)]
    made = kept(rows, 40)
    # Smallest first: R3 3 of 40/4, R4 8 of 37/3, then 29 for R1 and R2: 14 and 15.
    shares = {"native": 15, "program": 14, "bug_fix": 3, "native_refinement": 6, "program_refinement": 2}
    assert Counter(row["kind"] for row in made.sft) == shares
    # Of R2's 14, family y has only 4.
    assert Counter(row["family"] for row in made.sft if row["kind"] == "program") == {"x": 10, "y": 4}
    assert made.rejected == {"sft: beyond sft_rows": 65}
    assert [row for row in rows if row in made.sft] == made.sft, "in the order of the file"
    assert kept(list(reversed(rows)), 40).sft == list(reversed(made.sft))


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
    settings: dict[str, Any] = {"tau": 0.75, "source": "s", "folder": tmp_path, "seeds": {}, "split": split}
    made = assemble(traces, excluded=EvaluationVideos(), **settings)
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


GROUPS = {
    "retrieval": ("get_informative_clips", "get_informative_subtitles"),
    "localization": ("extract_frames", "trim_frames", "trim_around"),
    "extraction": ("crop_left", "run_ocr", "detect_object"),
    "context": ("get_subtitle_hints",),
}


def test_the_share_is_kept_and_groups_are_equally_likely() -> None:
    drops = ModuleDrops(0.5, seed=3)
    drawn = [drops.group(f"q{number}") for number in range(4000)]
    assert drawn == [drops.group(f"q{number}") for number in range(4000)]
    # 5 standard deviations: of 4000 draws at a half and at an eighth.
    assert abs(sum(group is None for group in drawn) - 2000) < 160
    assert all(abs(drawn.count(group) - 500) < 105 for group in GROUPS)
    assert drawn != [ModuleDrops(0.5, seed=4).group(f"q{number}") for number in range(4000)]
    assert ModuleDrops().group("q1") is None
    assert ModuleDrops(1.0).group("q1") is not None


def test_teacher_and_rows_do_without_the_same_modules(root: Path, tmp_path: Path, stub: StubServer) -> None:
    out = tmp_path / "out"
    more = ("--reference", "compact", "--drop-modules", "0.6", "--seed", "1")
    assert main(flags(root, out, stub, *more), load=load_moody) == 0
    drops = ModuleDrops(0.6, 1)
    records = {trace.question_id: trace for trace in read_traces(out / "records.jsonl")}
    expected = {name: drops.group(name) for name in records}
    assert {None} < set(expected.values()), "the world is too small to drop anything"
    asked = [text_of(body) for body in stub.chats]
    sft, grpo = rows(out, "sft.jsonl"), rows(out, "grpo.jsonl")
    assert sft
    assert grpo
    for row in (*sft, *grpo):
        group = expected[row["question_id"]]
        prompt = row["messages"][0]["content"]
        assert (row["reference"], row.get("without")) == ("compact", None if group is None else [group])
        missing = () if group is None else GROUPS[group]
        shown = set(re.findall(r"^- `(\w+)\(", prompt, re.MULTILINE))
        assert shown <= set(row["modules"]) - set(missing)
        assert "query_mc" in shown
        assert ("extract_frames" in shown) == (group != "localization")
        assert "What a program may import" not in prompt
    # The teacher's reference is whole, but for what the question does without.
    for trace in records.values():
        same = [other.question_id for other in records.values() if other.question == trace.question]
        for text in asked:
            if f"Question: {trace.question}\n" in text and "What a program may import" in text:
                shown_to_teacher = "- `extract_frames(" in text
                assert shown_to_teacher in {expected[name] != "localization" for name in same}
    # Training reads what rows say.
    read = {row.id: row for row in read_grpo_rows(out / "grpo.jsonl").rows}
    for row in grpo:
        assert read[row["id"]].without == tuple(row.get("without", ()))


def test_rows_of_sft_have_drawn_names_that_prompt_and_reply_share(
    root: Path, tmp_path: Path, stub: StubServer
) -> None:
    plain, out = tmp_path / "plain", tmp_path / "out"
    assert main(flags(root, plain, stub, "--reference", "compact"), load=load_moody) == 0
    words = flags(root, out, stub, "--reference", "compact", "--rename-modules", "0.5", "--seed", "1")
    assert main(words, load=load_moody) == 0
    of_seed = {row["id"]: row for row in rows(out, "sft.jsonl")}
    assert json.loads((out / "card.json").read_text())["about"]["settings"]["rename_modules"] == 0.5
    # The names are those of the rows alone: exploring again gives the same rows for another share.
    again = [*flags(root, out, stub, "--reference", "compact", "--seed", "1"), "--assemble-only"]
    assert main(again, load=load_moody) == 0
    assert json.loads((out / "card.json").read_text())["about"]["settings"]["rename_modules"] is None
    original = {row["id"]: row for row in rows(out, "sft.jsonl")}
    assert of_seed.keys() == original.keys()
    renamed = 0
    for name, row in of_seed.items():
        texts, before = ([each["content"] for each in one["messages"]] for one in (row, original[name]))
        if texts == before:
            continue
        renamed += 1
        shown = re.findall(r"^- `(\w+)\(", texts[0], re.MULTILINE)
        was = re.findall(r"^- `(\w+)\(", before[0], re.MULTILINE)
        drawn = dict(zip(was, shown, strict=True))
        assert len(set(shown)) == len(was)
        assert not set(shown) & set(was)
        # Every call of the reply is of a module that the prompt lists, and says the same.
        for new, old in zip(texts, before, strict=True):
            back = new
            for module, other in drawn.items():
                back = back.replace(other, module)
            assert back == old
        assert not any(f"{module}(" in texts[1] for module in was)
    assert 0 < renamed < len(of_seed)
    # What a log lists is renamed too, and a word that is the name of a module is not.
    (trace, *_) = read_traces(out / "records.jsonl")
    rename = RowReference("compact", renamed=1.0).renames(trace)
    log = rename("Which crop, then?\navailable functions: query_mc(), crop(), crop_left()")
    assert re.fullmatch(
        r"Which crop, then\?\navailable functions: \w+_\w+\(\), \w+_\w+\(\), \w+_\w+\(\)", log
    )
    assert not re.search(r"query_mc|crop\(|crop_left", log)
    # Rewards call modules by their names.
    assert all("`query_mc(" in row["prompt"] for row in rows(out, "grpo.jsonl"))
