"""Questions that do without a group of modules, and rows that say which modules are there."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.support.stub_server import StubServer, text_of
from tests.support.synthesis import flags, load_moody, rows
from videopro.data_synthesis.questions import ModuleDrops
from videopro.data_synthesis.run import main
from videopro.traces import read_traces
from videopro.train.finetune import read_rows
from videopro.train.rl import read_grpo_rows

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


def test_the_teacher_and_the_rows_do_without_the_same_modules(
    root: Path, tmp_path: Path, stub: StubServer
) -> None:
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
    assert {row.reference for row in read_rows(out / "sft.jsonl").rows} == {"compact"}
    read = {row.id: row for row in read_grpo_rows(out / "grpo.jsonl").rows}
    for row in grpo:
        assert read[row["id"]].without == tuple(row.get("without", ()))
        assert list(read[row["id"]].modules) == row["modules"]
    card = json.loads((out / "card.json").read_text())
    assert card["about"]["settings"]["reference"] == "compact"
    assert card["about"]["settings"]["drop_modules"] == 0.6


def test_rows_can_be_written_again_with_another_reference(
    root: Path, tmp_path: Path, stub: StubServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """The reference is no part of the key; the share of dropped modules is."""
    out = tmp_path / "out"
    assert main(flags(root, out, stub, "--limit", "3"), load=load_moody) == 0
    plain = (out / "sft.jsonl").read_bytes()
    assert b"Available functions" not in plain
    assert json.loads((out / "card.json").read_text())["about"]["settings"]["drop_modules"] is None
    requests = len(stub.chats)
    again = ("--limit", "3", "--assemble-only")
    assert main(flags(root, out, stub, *again, "--reference", "signatures"), load=load_moody) == 0
    assert all("- `query_native(video" in row["messages"][0]["content"] for row in rows(out, "sft.jsonl"))
    assert main(flags(root, out, stub, *again), load=load_moody) == 0
    assert (out / "sft.jsonl").read_bytes() == plain
    assert len(stub.chats) == requests
    dropped = ("--drop-modules", "0.5", "--reference", "compact")
    assert main(flags(root, out, stub, *dropped), load=load_moody) == 2
    assert "drop_modules" in capsys.readouterr().err
