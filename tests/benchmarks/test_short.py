"""Golden tests of benchmarks of short videos: small files of official shapes with replies whose scores are
worked out by hand.

How official readers interpret a reply is described in `videopro.question.official_extractors`, from the
scripts named there.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.benchmark_world import TSV, ego, metrics, score, touch, traces_of, write_json
from videopro.benchmarks import load
from videopro.errors import BenchmarkError
from videopro.question import Question

HEAD = "video,frame_count,width,height,question,answer,qid,type,a0,a1,a2,a3,a4"

# ---- NExT-QA ----------------------------------------------------------------------------------------------


def test_nextqa_scores(tmp_path: Path) -> None:
    kinds = {"CW": 2, "CH": 0, "TN": 1, "TP": 1, "TC": 4, "DO": 3}
    options = 'run,"jump, high",sit,eat,sleep'
    lines = [
        f'111,300,640,480,"what, then",{gold},{qid},{kind},{options}'
        for qid, (kind, gold) in enumerate(kinds.items())
    ]
    lines.append("222,300,640,480,where,0,0,DL,park,lake,house,road,field")
    (tmp_path / "val.csv").write_text("\n".join([HEAD, *lines]) + "\n")
    write_json(tmp_path / "map_vid_vidorID.json", {"111": "1164/111", "222": "0000/222"})
    touch(tmp_path, "NExTVideo/1164/111.mp4")
    benchmark = load("nextqa", root=tmp_path)
    first = benchmark.items[0]
    assert first.video == tmp_path / "NExTVideo/1164/111.mp4"
    assert (first.question.choices[1], first.id) == ("jump, high", "111_0")
    replies = ("C", "B", "B. jump, high", "A", "E", "D")
    summary = score(benchmark, {f"111_{qid}": reply for qid, reply in enumerate(replies)})
    # C: 1 of 2; T (TP counts as TN): TN right, TP wrong, TC right; D: DO right, DL's video is missing.
    shares = {"Acc@C": 0.5, "Acc@T": pytest.approx(2 / 3), "Acc@D": 1.0, "Acc@All": pytest.approx(4 / 6)}
    assert metrics(summary) == {name: (share, share) for name, share in shares.items()}
    counts = {name: row["n"] for name, row in summary["groups"]["type"].items()}
    assert counts == {"CH": 1, "CW": 1, "DO": 1, "TC": 1, "TN": 2}
    assert summary["coverage"] == 0.5


def nextqa_rows(tmp_path: Path, *kinds: str) -> None:
    rows = [f"111,300,640,480,why,0,{qid},{kind},run,jump,sit,eat,sleep" for qid, kind in enumerate(kinds)]
    (tmp_path / "val.csv").write_text("\n".join([HEAD, *rows]) + "\n")
    touch(tmp_path, "videos/111.mp4")


def test_nextqa_atp_hard_is_a_list_of_row_numbers_of_val(tmp_path: Path) -> None:
    nextqa_rows(tmp_path, "CW", "CH", "TP", "DO")
    assert [item.groups for item in load("nextqa", root=tmp_path).items[:1]] == [{"type": "CW"}]
    with pytest.raises(BenchmarkError, match=r"'atp_hard' needs atp-hard-ct4\.txt beside val\.csv"):
        load("nextqa", split="atp_hard", root=tmp_path)
    (tmp_path / "atp-hard-ct4.txt").write_text("0\n2\n")
    hard = load("nextqa", split="atp_hard", root=tmp_path)
    assert [item.id for item in hard.items] == ["111_0", "111_2"]
    assert metrics(score(hard, {"111_0": "A", "111_2": "B"})) == {
        "Acc@C": (1.0, 1.0), "Acc@T": (0.0, 0.0), "Acc@D": (None, None), "Acc@All": (0.5, 0.5)
    }  # fmt: skip
    # One run of val has both columns of VideoAgent's Table 3.
    whole = load("nextqa", root=tmp_path)
    assert [item.groups.get("atp_hard") for item in whole.items] == ["CW", None, "TN", None]
    groups = score(whole, {"111_0": "A", "111_1": "B", "111_2": "A", "111_3": "A"})["groups"]
    assert {name: row["accuracy"] for name, row in groups["atp_hard"].items()} == {"CW": 1.0, "TN": 1.0}
    assert load("nextqa", split="val", root=tmp_path).protocol == hard.protocol

    with pytest.raises(BenchmarkError, match=r"counts rows of val\.csv"):
        load("nextqa", split="atp_hard", root=tmp_path, annotations="hf:someone/NExTQA")
    for lines, why in (("0\n4\n", "names row 4, and there are 4 rows"), ("111_0\n", "must list row numbers")):
        (tmp_path / "atp-hard-ct4.txt").write_text(lines)
        with pytest.raises(BenchmarkError, match=why):
            load("nextqa", root=tmp_path)


# ---- EgoSchema --------------------------------------------------------------------------------------------


def test_egoschema_subset_scores_and_full_has_no_gold(tmp_path: Path) -> None:
    ego(tmp_path)
    subset = load("egoschema", root=tmp_path)
    assert [(item.id, item.answer) for item in subset.items] == [("uid-0", "E"), ("uid-2", "B")]
    # Officially the first of the letters in brackets, before a space or before a full stop: the A of "A man".
    summary = score(subset, {"uid-0": "E. reason 4.", "uid-2": "A man sits, so it is (B)"})
    assert (summary["accuracy"], summary["official_accuracy"]) == (1.0, 0.5)
    full = load("egoschema", split="full", root=tmp_path)
    assert [item.answer for item in full.items] == [None] * 3
    summary = score(full, {"uid-0": "A", "uid-1": "B", "uid-2": "?"})
    assert (summary["n"], summary["questions"], summary["accuracy"]) == (0, 3, None)


# ---- MMBench-Video ----------------------------------------------------------------------------------------


def test_mmbench_video_is_open(tmp_path: Path) -> None:
    (tmp_path / "MMBench-Video.tsv").write_text(TSV)
    touch(tmp_path, "video/ab_processed.mp4", "video/cd_processed.mp4")
    benchmark = load("mmbench_video", root=tmp_path)
    second = benchmark.items[1]
    assert (second.question, second.reference) == (Question.open("How many?"), "Three")
    assert second.groups["area"] == "CSR | FP-S"
    traces = traces_of(benchmark, {"0": "It says open", "1": "three", "2": "I do not know"})
    assert [trace.official for trace in traces] == [None] * 4
    assert traces[1].reference == "Three"
