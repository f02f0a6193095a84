"""What the viewer shows of a run, up to the files it writes: listings, lines of calls, pictures, bad folders.
How its pages look and work in a browser is in test_pages.py."""

from __future__ import annotations

import base64
import json
import re
import shutil
import webbrowser
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.support import view_world as world
from tests.support.making_videos import make, read_number
from tests.support.scenes import video as scene_video
from videopro.commands.view import main
from videopro.modules.calls import AnswerHandle, BoxHandle, FrameHandle, LineHandle, show
from videopro.question import Answer
from videopro.report.pages import thumbnails
from videopro.report.pages.content import page, page_name, row, state_of
from videopro.report.pages.listing import highlight, lines_of_calls, listing
from videopro.report.pages.script import assignment, read_assignment
from videopro.report.pages.site import video_source
from videopro.report.pages.thumbnails import Picture, VideoPictures, spread
from videopro.traces import Call, DecidingCalls, Execution, Reasoned
from videopro.traces.readings import Box, SpokenLine, answer_in, boxes_in, lines_in, part_in
from videopro.video import Video


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("view")
    return world.write_run(root / "run", world.traces(root / "videos")).path


def joined(lines: list[Any]) -> list[str]:
    return ["".join(text for _, text in line.tokens) for line in lines]


# ---- programs --------------------------------------------------------------------------------------------


def test_highlighting_changes_no_character() -> None:
    code = 'import math\n\n\tdef f(a):  # why\n    """Doc\n    string."""\n'
    code += '    return f(1.5) if a else "x\\n"\n$?`\n '
    lines = highlight(code, frozenset({"f"}))
    assert ["".join(text for _, text in line) for line in lines] == code.split("\n")
    assert ("k", "import") in lines[0]
    assert ("c", "# why") in lines[2]
    assert ("m", "f") in lines[5]
    assert ("n", "1.5") in lines[5]


def test_a_refinement_is_a_diff_with_the_new_programs_numbers() -> None:
    lines = listing("a = 1\nb = 3\nc = 4\nd = 5", "a = 1\nb = 2\nd = 5\ne = 6")
    assert [(line.mark, line.number) for line in lines] == [
        ("", 1), ("-", None), ("+", 2), ("+", 3), ("", 4), ("-", None),
    ]  # fmt: skip
    assert joined(lines) == ["a = 1", "b = 2", "b = 3", "c = 4", "d = 5", "e = 6"]
    assert highlight("x = 1\n" * 20_000)[0] == [("", "x = 1")], "too long for a program"


def test_calls_stand_at_the_lines_that_made_them() -> None:
    calls = [Call("query_yn", {}, "", line=6), Call("query_mc", {}, "", line=99)]
    assert lines_of_calls(world.SECOND, calls) == [6, None]


# ---- what is drawn of a result ---------------------------------------------------------------------------


def test_results_are_read_as_the_modules_show_them() -> None:
    video = scene_video()
    quoted = 'it\'s a "kite" \\ there'
    boxes = [BoxHandle(1.0, 2.0, 30.4, 40.0, quoted, 0.812), BoxHandle(0.0, 0.0, 5.0, 6.0, "b", 0.3)]
    read = [Box((1.0, 2.0, 30.0, 40.0), quoted, 0.81), Box((0.0, 0.0, 5.0, 6.0), "b", 0.3)]
    assert boxes_in(show(boxes)) == read
    assert answer_in(show(AnswerHandle(Answer("No", 0.8764, raw="No"), "yes_no"))) == ("No", 0.876)
    assert answer_in(show([AnswerHandle(Answer("No", 0.8764, raw="No"), "yes_no")])) is None
    assert lines_in(show([LineHandle(video, 1.0, 2.5, None, "Hello 'you'")])) == [
        SpokenLine(1.0, 2.5, "Hello 'you'")
    ]
    frame = FrameHandle(video, 12.5).part(4, 6, 20, 30)
    assert part_in(show(frame)) == (12.5, (4.0, 6.0, 20.0, 30.0))
    assert part_in(show(FrameHandle(video, 12.5))) is None


def test_a_result_that_was_cut_short_gives_what_is_whole() -> None:
    text = show([BoxHandle(n, 0.0, 9.0, 9.0, "kite", 0.5) for n in range(12)], 100)
    assert text.endswith("…")
    assert [box.corners[0] for box in boxes_in(text)] == [0.0, 1.0]


# ---- rows and pages --------------------------------------------------------------------------------------


def test_states_and_marks(tmp_path: Path) -> None:
    traces = {trace.question_id.split("/")[0]: trace for trace in world.traces(tmp_path)}
    states = [state_of(trace) for trace in traces.values()]
    assert states == ["right", "wrong", "right", "unparsed", "error", "unparsed"]
    marks = {name: row(trace)["marks"] for name, trace in traces.items() if row(trace)["marks"]}
    assert marks == {"refined": ["refined", "fixed"], "hostile": ["failed"]}
    assert state_of(replace(traces["right"], gold=None)) == "unscored"
    assert state_of(replace(traces["right"], gold="-")) == "unscored"
    turned = replace(traces["refined"], gold="B")
    assert row(turned)["marks"] == ["refined", "broken"]
    # A correct fallback does not count as a fix.
    refined = traces["refined"]
    rounds = (*refined.rounds, replace(refined.rounds[-1], prompt_kind="fallback"))
    fallen = replace(refined, rounds=rounds, selected=len(rounds) - 1)
    assert row(fallen)["marks"] == ["refined", "fallback"]
    # Rounds that were stored for other thresholds are not refinements of this run.
    stored = replace(refined, refined=0, selected=0, final=refined.first)
    assert row(stored)["marks"] == []


def test_a_reasoned_letter_says_which_calls_decided(tmp_path: Path) -> None:
    trace = world.refined(world.traces(tmp_path)[0].video)
    calls = tuple(Call(name, {}, "Yes") for name in ("query_yn", "run_ocr", "query_yn"))
    first, second = DecidingCalls((0,), 0.9), DecidingCalls((1, 2), 0.8)
    for reasoned, words in (
        (None, ""),
        (
            Reasoned("product", (first, second), 9),
            "call 1 query_yn (0.90), call 2 run_ocr with call 3 query_yn (0.80); the product of",
        ),
        (Reasoned("least", (DecidingCalls((2,), 0.75),), 4), "Decided by call 3 query_yn (0.75); alone (4 "),
        (Reasoned("product", (DecidingCalls((1,), None),), 4), "run_ocr (no confidence); no call gives"),
        (Reasoned("product", (), 3, "no call's result changes"), "A guess: no call's result changes (3 rep"),
    ):
        execution = Execution("ok", Answer("B", 0.72), calls=calls, reasoned=reasoned)
        rounds = (replace(trace.rounds[0], execution=execution), *trace.rounds[1:])
        content, _ = page(replace(trace, rounds=rounds), 3, world.NO_PROMPTS)
        line = content["rounds"][0]["execution"]["reasoned"]
        assert words in line
        assert bool(line) == (reasoned is not None)


def test_a_page_holds_what_happened(tmp_path: Path) -> None:
    content, pictures = page(world.refined(world.traces(tmp_path)[0].video), 3, world.NO_PROMPTS)
    first, second = content["rounds"]
    assert first["planning"] == "Look for the kite."
    assert second["refines"] == 0
    assert first["refines"] is None
    assert [call["line"] for call in second["calls"]] == [2, 3, 6, 6, 6, 6, 7, 8, 9]
    asked = first["calls"][2]
    assert (asked["answer"], asked["confidence"]) == ("B", 0.4)
    assert asked["looked"] == 4
    assert [frame["time"] for frame in asked["frames"]] == [2.0, 2.5, 2.75], "three of four, evenly"
    assert first["calls"][0]["intervals"] == [[4.0, 5.0]]
    crop = second["calls"][-1]["frames"][0]
    assert crop["box"] == [0.25, 0.25, 0.75, 0.75]
    assert {crop["key"], crop["whole"]} <= {picture.key for picture in pictures}
    assert second["calls"][3]["boxes"] == [
        {"corners": [32.0, 16.0, 96.0, 48.0], "label": "kite", "score": 0.81}
    ]
    assert second["calls"][-2]["said"] == [{"start": 2.0, "end": 3.0, "text": "See the kite fly."}]
    json.dumps(content, allow_nan=False)


# ---- data as scripts -------------------------------------------------------------------------------------


def test_a_script_holds_any_text_without_closing_its_tag(tmp_path: Path) -> None:
    proto = {"__proto__": '"__proto__":'}
    content = {"text": world.HOSTILE + "\ud800 ,);", "n": [1.5, None], "__proto__": proto}
    text = assignment("page", "a", content)
    assert text.isascii()
    assert "<" not in text
    assert re.fullmatch(r'VIEW\.page\("a",\{.*\}\);\n', text)
    (tmp_path / "a.js").write_text(text)
    assert read_assignment(tmp_path / "a.js") == content
    assert '"__proto__":' not in text.replace(r"\"", "")
    # The URL of a video is relative to the pages.
    video = tmp_path / "videos" / "Zoë 1.mp4"
    video.parent.mkdir()
    video.write_bytes(b"x")
    assert video_source(str(video), tmp_path / "run" / "view") == {"url": "../../videos/Zo%C3%AB%201.mp4"}
    assert "gone.mp4" in video_source("gone.mp4", tmp_path)["missing"]
    (tmp_path / "a.js").write_text(text[:-9])
    assert read_assignment(tmp_path / "a.js") is None


# ---- pictures --------------------------------------------------------------------------------------------


def shown(folder: Path, sheets: thumbnails.ThumbnailSheets, name: str, key: str) -> np.ndarray:
    number, left, top, width, height = sheets.cells[key]
    with Image.open(folder / f"{name}-{number}.jpg") as image:
        assert list(image.size) == sheets.sheets[number]
        return np.asarray(image)[top : top + height, left : left + width]


def test_thumbnails_show_the_frames_at_their_times(tmp_path: Path) -> None:
    # Thirds of a second: rounded times lie before the frames that they name.
    times = make(tmp_path / "v.mp4", 120, rate=24)
    wanted, part = VideoPictures(str(tmp_path / "v.mp4"), ""), Picture(round(times[7], 3), (0, 0, 0.85, 0.5))
    # More than a sheet holds.
    wanted.add([*(Picture(round(time, 3)) for time in times[:100]), part])
    sheets = thumbnails.make_sheets(wanted, tmp_path)
    assert (sheets.error, len(sheets.sheets)) == ("", 2)
    for number in (0, 1, 7, 63, 64, 99):
        picture = shown(tmp_path, sheets, wanted.name, Picture(round(times[number], 3)).key)
        assert (picture.shape, read_number(picture)) == ((64, 128, 3), number)
    crop = shown(tmp_path, sheets, wanted.name, part.key)
    assert (crop.shape, read_number(crop)) == ((32, 109, 3), 7)
    frames = [(float(n),) for n in range(64)]
    assert [int(frame[0]) for frame in spread(frames, 4)] == [8, 24, 40, 56]
    assert spread(frames[:3], 4) == frames[:3]


def test_half_written_pictures_are_made_again(tmp_path: Path) -> None:
    make(tmp_path / "v.mp4", 20, rate=4)
    wanted = VideoPictures(str(tmp_path / "v.mp4"), "")
    wanted.add([Picture(1.0)])
    thumbnails.make_sheets(wanted, tmp_path)
    listed = tmp_path / f"{wanted.name}.js"
    for harm in (
        lambda: listed.write_text(listed.read_text()[:40]),
        lambda: (tmp_path / f"{wanted.name}-0.jpg").unlink(),
        lambda: listed.write_text(assignment("pictures", wanted.name, {"other": 1})),
    ):
        harm()
        sheets = thumbnails.make_sheets(wanted, tmp_path)
        assert read_number(shown(tmp_path, sheets, wanted.name, "1.000")) == 4


def test_a_replaced_video_gives_no_pictures(tmp_path: Path) -> None:
    make(tmp_path / "v.mp4", 20, rate=4)
    seen = Video.open(tmp_path / "v.mp4").id
    make(tmp_path / "v.mp4", 24, rate=4)
    wanted = VideoPictures(str(tmp_path / "v.mp4"), seen)
    wanted.add([Picture(1.0)])
    sheets = thumbnails.make_sheets(wanted, tmp_path)
    assert "is not the file that the run used" in sheets.error
    assert not sheets.cells


# ---- the command -----------------------------------------------------------------------------------------


def test_a_run_becomes_a_folder(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path: path.read_bytes() for path in run.glob("*.*")}
    output = tmp_path / "pages"
    assert main([str(run), "--output", str(output)]) == 0
    captured = capsys.readouterr()
    assert f"6 questions: open {output / 'index.html'}" in captured.out
    assert "lost.mp4" in captured.err
    assert "gone.mp4" not in captured.err, "the run did not see it either"
    index = read_assignment(output / "data" / "index.js")
    rows = [dict(zip(index["columns"], values, strict=True)) for values in index["rows"]]
    ids = [shown["id"].split("/")[0] for shown in rows]
    assert ids == ["right", "wrong", "refined", "unread", "missing", "hostile"]
    # Of the five whose video could be read, two are right.
    assert (index["numbers"]["n"], index["numbers"]["accuracy"]) == (5, 0.4)
    recorded = [json.loads(line) for line in (run / "traces.jsonl").read_text().splitlines()]
    for shown, line in zip(rows, recorded, strict=True):
        assert shown["page"] == page_name(line["question_id"])
        assert read_assignment(output / "data" / "questions" / f"{shown['page']}.js")["id"] == shown["id"]
        packed = read_assignment(output / "data" / "traces" / f"{shown['page']}.js")
        assert json.loads(zlib.decompress(base64.b64decode(packed))) == line
    assert {path: path.read_bytes() for path in run.glob("*.*")} == before, "the run itself is only read"
    text = "".join(path.read_text() for path in output.glob("*.*"))
    assert "fetch(" not in text
    assert not re.search(r"https?://", text), "nothing comes from outside"
    # Again, as after more questions: the same pages, no picture made again.
    times = {path: path.stat().st_mtime_ns for path in output.glob("pictures/*.jpg")}
    assert times
    assert main([str(run), "--output", str(output)]) == 0
    assert {path: path.stat().st_mtime_ns for path in output.glob("pictures/*.jpg")} == times
    # By default they are in the run's folder.
    shutil.copytree(run, tmp_path / "run")
    assert main([str(tmp_path / "run"), "--no-pictures"]) == 0
    assert (tmp_path / "run" / "view" / "index.html").exists()
    assert not list((tmp_path / "run" / "view" / "pictures").iterdir())


# ---- several runs, and opening them ----------------------------------------------------------------------


def read_runs(output: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = read_assignment(output / "data" / "runs.js")
    return rows


def test_a_folder_of_runs_becomes_one_folder_of_pages(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    some = world.traces(tmp_path / "videos")
    world.write_run(tmp_path / "runs" / "b", some[:2])
    world.write_run(tmp_path / "runs" / "deep" / "a", some[2:3], method="native")
    # A second time the pages that are there are no runs.
    for _ in range(2):
        assert main([str(tmp_path / "runs"), "--no-pictures"]) == 0
        output = tmp_path / "runs" / "view"
        assert capsys.readouterr().out == f"3 questions of 2 runs: open {output / 'index.html'}\n"
        rows = read_runs(output)
        told = [(run["name"], run["questions"], run["accuracy"]) for run in rows]
        assert told == [("b", 2, 0.5), ("deep-a", 1, 1.0)]
        assert rows[1]["run"]["method"] == "native"
        for listed in rows:
            opened = output / listed["page"]
            assert opened.is_file()
            back = read_assignment(opened.parent / "data" / "index.js")["overview"]
            assert (opened.parent / back).resolve() == (output / "index.html").resolve()


def test_runs_given_one_by_one_go_into_the_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    some = world.traces(tmp_path / "videos")
    one = world.write_run(tmp_path / "x" / "same", some[:1]).path
    two = world.write_run(tmp_path / "y" / "same", some[:1]).path
    assert main([str(one), str(two), "--output", str(tmp_path / "pages"), "--no-pictures"]) == 0
    assert [run["name"] for run in read_runs(tmp_path / "pages")] == ["x-same", "y-same"]
    assert not (one / "view").exists()
    full = tmp_path / "full"
    full.mkdir()
    (full / "notes.txt").touch()
    assert main([str(one), str(two), "--output", str(full)]) == 2
    assert "contains files not written by the viewer" in capsys.readouterr().err


@pytest.mark.parametrize("has_browser", [True, False])
def test_open_opens_the_page_or_says_that_there_is_no_browser(
    has_browser: bool, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda url: opened.append(url) or has_browser)
    assert main([str(run), "--output", str(tmp_path / "my pages"), "--no-pictures", "--open"]) == 0
    index = tmp_path / "my pages" / "index.html"
    assert opened == [index.as_uri()]
    said = capsys.readouterr()
    assert f"open {index}" in said.out
    assert ("no browser found" in said.err) == (not has_browser)
