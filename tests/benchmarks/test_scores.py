"""Golden tests of the benchmarks: small files of official shapes with replies whose scores are
worked out by hand.

How official readers interpret a reply is described in `videopro.question.official_extractors`, from the
scripts named there.
"""

from pathlib import Path
from typing import Any

import pytest

from tests.support.benchmark_world import (
    MLVU_TASKS,
    MME,
    cg,
    lvb,
    metrics,
    mlvu,
    score,
    touch,
    write_json,
    write_parquet,
)
from videopro.benchmarks import load
from videopro.benchmarks.base import NO_OPTION
from videopro.benchmarks.metrics import interval_iou
from videopro.errors import BenchmarkError

# ---- LongVideoBench ---------------------------------------------------------------------------------------


def test_longvideobench_test_has_no_answers_and_the_hub_pads_options(tmp_path: Path) -> None:
    write_json(tmp_path / "lvb_test_wo_gt.json", [lvb(1, 15, None)])
    (item,) = load("longvideobench", split="test", root=tmp_path, protocol="no_subtitles").items
    assert (item.answer, item.subtitles) == (None, None)
    padded = lvb(1, 60, 1)
    options = padded.pop("candidates")
    padded |= {f"option{i}": option for i, option in enumerate([*options, "N/A"])}
    write_parquet(tmp_path / "validation-00000-of-00001.parquet", [padded])
    (item,) = load("longvideobench", root=tmp_path, protocol="videopro").items
    assert (item.question.choices, item.answer) == (tuple(options), "B")
    assert (item.subtitle_offset, item.groups["duration"]) == (12.5, "(15, 60]")


# ---- Video-MME --------------------------------------------------------------------------------------------


def test_videomme_with_and_without_subtitles(tmp_path: Path) -> None:
    write_parquet(tmp_path / "videomme/test-00000-of-00001.parquet", MME)
    with pytest.raises(BenchmarkError, match=r"needs subtitles, but .*subtitle .*--protocol no_subtitles"):
        load("videomme", root=tmp_path, protocol="subtitles")
    touch(tmp_path, "subtitle/video-id_02.srt")
    listed = load("videomme", root=tmp_path, protocol="subtitles")
    own = tmp_path / "subtitle/video-id_02.srt"
    assert [item.subtitles for item in listed.items] == [None, own, None, None]
    without = load("videomme", root=tmp_path)
    assert [item.subtitles for item in without.items] == [None] * 4
    assert without.protocol.identity() != listed.protocol.identity()
    long = load("videomme", split="long", root=tmp_path)
    assert [item.id for item in long.items] == ["002-1", "003-1", "004-1"]


# ---- MLVU -------------------------------------------------------------------------------------------------


def test_mlvu_dev_scores_with_its_real_defects(tmp_path: Path) -> None:
    sports = ["Fishing", "Rowing", "Diving", "Sleeping"]
    tasks = {
        "1_plotQA": [
            mlvu("a.mp4", ["Blue", "Red", "White", "Grey"], "Red", "plotQA"),
            # The gold stands twice: officially the last one is right, and A is not.
            mlvu("a.mp4", ["Blue", "Red", "White", "Blue"], "Blue", "plotQA"),
            mlvu("b.mp4", ["", "an archer", "no archer", ""], "an archer", "plotQA"),
        ],
        # The first gold is not one of the options: officially always wrong.
        "2_needle": [mlvu("n.mp4", sports, gold, "findNeedle") for gold in ("Catching a drone", "Fishing")],
    }
    # The three defects of dev: a gold answer that is an empty option, twice, and a question of nothing.
    tasks["3_ego"] = [mlvu("a.mp4", ["a box", "", "a shelf", "a bag"], "", "ego")]
    tasks["7_topic_reasoning"] = [mlvu("b.mp4", ["", "", "", ""], "", "topic_reasoning", question="")]
    for task in MLVU_TASKS:
        write_json(tmp_path / f"json/{task}.json", tasks.get(task, []))
        touch(tmp_path, *(f"video/{task}/{record['video']}" for record in tasks.get(task, ())))
    benchmark = load("mlvu", root=tmp_path)
    # Officially the last of equal options is right.
    assert [item.answer for item in benchmark.items] == ["B", "D", "B", NO_OPTION, "A", "B", "D"]
    assert benchmark.items[2].question.choices == ("(empty)", "an archer", "no archer", "(empty)")
    assert benchmark.items[6].question.text == "(empty)"
    # Twins three times, a gold that is not an option, and what is empty: options three times, a question.
    assert len(benchmark.defects) == 8
    plot = {"1_plotQA/1": "B", "1_plotQA/2": "A", "1_plotQA/3": "C"}
    needle = {"2_needle/1": "A", "2_needle/2": "A) Fishing"}
    others = {"3_ego/1": "B) (empty)", "7_topic_reasoning/1": "D"}
    summary = score(benchmark, {**plot, **needle, **others})
    # Robust: plotQA 2 of 3, all others right. Official: plotQA 1 of 3, needle 1 of 2, the others right.
    assert (summary["n"], summary["official_n"]) == (6, 7)
    assert summary["accuracy"] == pytest.approx(5 / 6)
    assert summary["official_accuracy"] == pytest.approx(4 / 7)
    found = (pytest.approx((2 / 3 + 3) / 4), pytest.approx((1 / 3 + 1 / 2 + 2) / 4))
    assert metrics(summary)["M-Avg"] == found


def test_mlvu_dev_without_a_task_is_reported(tmp_path: Path) -> None:
    write_json(tmp_path / "json/1_plotQA.json", [mlvu("a.mp4", ["x", "y"], "x", "plotQA")])
    with pytest.raises(BenchmarkError, match=r"6 records are broken(.|\n)*has no json/2_needle.json; down"):
        load("mlvu", root=tmp_path)
    assert len(load("mlvu", root=tmp_path, skip_broken=True).items) == 1


# ---- CG-Bench ---------------------------------------------------------------------------------------------


def cg_folder(root: Path, *records: dict[str, Any]) -> None:
    write_json(root / "cgbench_mini.json", records)
    touch(root, *(f"cg_videos_720p/{record['video_uid']}.mp4" for record in records))


def test_cg_bench_scores(tmp_path: Path) -> None:
    cg_folder(tmp_path, cg(1, [[0, 10]], "D"), cg(2, [[0, 10], [20, 30]], "D"), cg(3, [[100, 110]], "A"))
    benchmark = load("cg_bench", split="mini", root=tmp_path)
    replies = {"1": '```json\n{"result": "D"}\n```', "2": "A", "3": "A or B"}
    found = {"1": [(5.0, 12.0), (10.0, 15.0)], "2": [(0.0, 10.0)]}
    # IoU: 5 of 15 s, 10 of 20 s, none. At least .1 to .5: 3, 5 (0.5 counts) and 0 of 5. Officially "A or B"
    # is right, as A is among its letters.
    numbers = metrics(score(benchmark, replies, found))
    assert numbers["long accuracy"] == (pytest.approx(1 / 3), pytest.approx(2 / 3))
    assert numbers["mIoU"][0] == pytest.approx((1 / 3 + 1 / 2) / 3)
    assert numbers["rec@IoU"][0] == pytest.approx(8 / 15)
    assert numbers["acc@IoU"][0] == pytest.approx(3 / 15)
    assert {item.groups["duration"] for item in benchmark.items} == {"10 ~ 20"}
    # A reply without a letter leaves the official denominator.
    unread = score(benchmark, {**replies, "3": "no idea"})
    assert (unread["official_n"], unread["official_accuracy"]) == (2, 0.5)
    clue = load("cg_bench", split="mini", root=tmp_path, protocol="clue")
    assert clue.items[1].shown == ((0.0, 10.0), (20.0, 30.0))
    assert [metric.name for metric in clue.protocol.metrics] == ["clue accuracy"]


def test_cg_bench_without_a_clue_is_not_shown_the_whole_video(tmp_path: Path) -> None:
    cg_folder(tmp_path, cg(1, [[0, 10]], "D"), cg(2, [], "D"))
    assert len(load("cg_bench", split="mini", root=tmp_path).items) == 2
    with pytest.raises(BenchmarkError, match=r"question '2': has no clue intervals, but protocol 'clue'"):
        load("cg_bench", split="mini", root=tmp_path, protocol="clue")
    clue = load("cg_bench", split="mini", root=tmp_path, protocol="clue", skip_broken=True)
    assert [item.id for item in clue.items] == ["1"]


def test_interval_iou() -> None:
    assert interval_iou([(0, 10), (5, 20)], [(15, 30)]) == pytest.approx(5 / 30)
    assert interval_iou([], [(0, 1)]) == 0.0
    assert interval_iou([(3, 3)], [(3, 3)]) == 0.0


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


def test_nextqa_atp_hard_is_a_list_of_row_numbers_of_val(tmp_path: Path) -> None:
    kinds = enumerate(("CW", "CH", "TP", "DO"))
    rows = [f"111,300,640,480,why,0,{qid},{kind},run,jump,sit,eat,sleep" for qid, kind in kinds]
    (tmp_path / "val.csv").write_text("\n".join([HEAD, *rows]) + "\n")
    touch(tmp_path, "videos/111.mp4")
    assert [item.groups for item in load("nextqa", root=tmp_path).items[:1]] == [{"type": "CW"}]
    with pytest.raises(BenchmarkError, match=r"'atp_hard' needs atp-hard-ct4\.txt next to val\.csv"):
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

    with pytest.raises(BenchmarkError, match=r"needs val\.csv"):
        load("nextqa", split="atp_hard", root=tmp_path, annotations="hf:someone/NExTQA")
    for lines, why in (("0\n4\n", "lists row 4"), ("111_0\n", "must list row numbers")):
        (tmp_path / "atp-hard-ct4.txt").write_text(lines)
        for name in ("nextqa", "nextqa_atp_hard"):
            with pytest.raises(BenchmarkError, match=why):
                load(name, root=tmp_path)
    (tmp_path / "atp-hard-ct4.txt").write_text("")
    with pytest.raises(BenchmarkError, match="must list row numbers"):
        load("nextqa_atp_hard", root=tmp_path)
