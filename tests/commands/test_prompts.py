"""Prompts for GRPO without a teacher, and the oracle mode of rows that lack it."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.support.benchmark_runs import in_this_process as in_this_process
from tests.support.colours import make_video
from tests.support.scenes import NO_MODELS
from tests.support.synthesis import BROKEN, LIKE_NATIVE, RIGHT, load_moody, rows
from tests.support.synthesis import own_world as own_world
from tests.support.synthesis import root as root
from videopro.backbones import Backbone, PlannerRecord
from videopro.backbones.base import GenerateRequest
from videopro.benchmarks import load
from videopro.commands.prompts.command import COMMAND, main, prompts_from_questions
from videopro.commands.prompts.planner import AskedRuns, read_planner
from videopro.errors import ConfigError
from videopro.executor import parse_program
from videopro.question import Answer
from videopro.traces import Execution, read_heads, read_traces
from videopro.train.rewards import score
from videopro.train.rl import read_grpo_rows
from videopro.video.decoding import content_id


def plan(request: GenerateRequest) -> str:
    """Right for question (0), the native look again for (1), and a crash for (2)."""
    programs = {"(0)": RIGHT, "(1)": LIKE_NATIVE, "(2)": BROKEN}
    return next(programs[mood] for mood in programs if mood in request.text)


def load_planning(model: str, *, adapter: str = "", **settings: Any) -> Backbone:
    """Natively right and sure of question (0), unsure of (1), wrong about (2)."""
    return load_moody(model, writes=plan, **settings)


def load_reading(model: str, *, adapter: str = "", **settings: Any) -> Backbone:
    """The same as a planner that was trained with a compact reference of its modules."""
    made = load_planning(model, **settings)
    made.planner = PlannerRecord(reference="compact") if adapter else made.planner
    return made


def record(folder: Path, videos: list[Path]) -> Path:
    """An adapter's folder that says what it was fine-tuned on."""
    folder.mkdir()
    (folder / "adapter_config.json").write_text("{}")
    ids = [content_id(path) for path in videos]
    (folder / "training_record.json").write_text(json.dumps({"videos": {"sft": ids}} if ids else {}))
    return folder


def flags(root: Path, output: Path, *more: str) -> list[str]:
    source = ["--source", "jsonl", "--root", str(root), "--model", "m", "--output", str(output)]
    return [*source, "--modules", *NO_MODELS, "speech=none", *more]


def test_rows_follow_from_what_the_model_and_the_planner_did(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of three videos one was for SFT. Each of the other two gives three plans, the native refinements of (1)
    and (2), the refinement of (1)'s program and the bug fix of (2)'s."""
    out, adapter = tmp_path / "out", record(tmp_path / "sft", [root / "videos/v1.mp4"])
    argv = flags(root, out, "--adapter", str(adapter))
    assert main(argv, load=load_planning) == 0
    made = rows(out, "grpo.jsonl")
    assert Counter((row["question_id"], row["kind"]) for row in made) == Counter(
        (f"v{video}q{number}", kind)
        for video in (0, 2)
        for number, kind in [
            *((number, "plan") for number in range(3)),
            *[(1, "native_refinement"), (2, "native_refinement")],
            *[(1, "program_refinement"), (2, "bug_fix")],
        ]
    )
    modes = {row["question_id"][-1]: row["oracle_mode"] for row in made}
    assert modes == {"0": "native", "1": "program", "2": "program"}
    assert all("NameError" in row["log"] for row in made if row["kind"] == "bug_fix")
    assert {row["native_confidence"] for row in made if row["question_id"] == "v0q1"} == {0.4}
    card = json.loads((out / "card.json").read_text())
    kinds = {"bug_fix": 2, "native_refinement": 4, "plan": 6, "program_refinement": 2}
    assert card["grpo"]["by kind"] == kinds
    not_asked = {"video that the planner was fine-tuned on": 3}
    assert card["questions"] == {"answered": 6, "videos": 2, "not asked": not_asked}
    assert card["native"]["right and confident"] == 2
    assert len(read_grpo_rows(out / "grpo.jsonl").rows) == 14

    # The runs stay, and rows are made from them again, within a limit:
    # as many of each kind.
    before = (out / "planner/traces.jsonl").read_bytes()
    assert main([*argv, "--grpo-rows", "8"], load=load_planning) == 0
    assert (out / "planner/traces.jsonl").read_bytes() == before
    assert Counter(row["kind"] for row in rows(out, "grpo.jsonl")) == dict.fromkeys(kinds, 2)


def test_rows_show_what_the_planner_was_trained_with(root: Path, tmp_path: Path) -> None:
    """A plan row is the prompt that the planner was asked with, to the letter."""
    out, adapter = tmp_path / "out", record(tmp_path / "sft", [root / "videos/v1.mp4"])
    (adapter / "videopro.json").write_text('{"planner": {"reference": "compact"}}')
    assert main(flags(root, out, "--adapter", str(adapter)), load=load_reading) == 0
    made = rows(out, "grpo.jsonl")
    plans = {row["question_id"]: row for row in made if row["kind"] == "plan"}
    heads = read_heads(out / "planner/traces.jsonl")
    asked = 0
    for trace in read_traces(out / "planner/traces.jsonl"):
        prompt = trace.rounds[0].prompt
        assert plans[trace.question_id]["prompt"] == heads.get(prompt.key, prompt.head) + prompt.text
        asked += 1
    assert asked == len(plans) == 6
    # Nothing finds clips, reads text or detects here, so no prompt names what would.
    for row in made:
        assert row["reference"] == "compact"
        assert "- `query_native(" in row["prompt"]
        assert not {"get_informative_clips", "run_ocr", "detect_object"} & set(row["modules"])
    assert {row.reference for row in read_grpo_rows(out / "grpo.jsonl").rows} == {"compact"}
    assert "GRPO prompts by family and kind" in (out / "CARD.md").read_text()
    assert json.loads((out / "card.json").read_text())["about"]["settings"]["reference"] == "compact"


def test_the_base_of_a_merged_planner_answers_directly(root: Path, tmp_path: Path) -> None:
    merged = record(tmp_path / "merged", [root / "videos/v1.mp4"])
    (merged / "adapter_config.json").rename(merged / "config.json")
    written = {"frames": 8, "pixels": 15360, "planner": {"base": "pocket", "weights": "w"}}
    (merged / "videopro.json").write_text(json.dumps(written))
    config = COMMAND.parse(["--source", "pocket", "--model", str(merged), "--output", str(tmp_path / "out")])
    planner = read_planner(config)
    assert (planner.folder, planner.answerer) == (merged, "pocket")
    benchmark = load("pocket", split="train")
    native, planned = map(
        AskedRuns(config, planner, benchmark, (), load_planning).settings, ("native", "planner")
    )
    assert (native.model, native.method) == ("pocket", "native")
    assert native.backbone == {"frames": 8, "pixels": 15360}
    assert (planned.model, planned.method, planned.backbone) == (str(merged), "adaptive", {})
    # And its videos of SFT are left out, as an adapter's.
    (merged / "training_record.json").write_text("{}")
    with pytest.raises(ConfigError, match="does not list the videos"):
        prompts_from_questions(config)


def test_unknown_and_spent_videos_of_sft(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "sft.jsonl"
    data.write_text(json.dumps({"videos": [str(root / f"videos/v{n}.mp4") for n in range(3)]}) + "\n")
    argv = flags(root, tmp_path / "a", "--adapter", str(record(tmp_path / "old", [])))
    for more, named in (([], "pass --sft-data"), (["--sft-data", str(data)], "--sft-videos keep")):
        assert main([*argv, *more], load=load_planning) == 2
        assert named in capsys.readouterr().err


QUESTION = "Question: Which colour is shown ({})?\nChoices:\nA. red\nB. green\nC. blue\nD. grey\n"


def test_the_oracle_mode_of_rows_is_filled_in_and_nothing_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Natively: (0) right and sure, (1) unsure. Unknown columns stay as they are."""
    make_video(tmp_path / "v.mp4", "red")
    asked = [json.dumps(f"<video>{QUESTION.format(number)}") for number in (0, 1)]
    video = f'"videos":["{tmp_path / "v.mp4"}"]'
    chat = '{{"messages" : [{{"role":"user","content":{}}}],{},"solution":"A"{}}}'
    given = [
        chat.format(asked[0], video, ',  "weight": 1.50,"note":"}caf\\u00e9 é"'),
        chat.format(asked[1], video, ', "oracle_mode": null , "x":1'),
        chat.format(asked[0], video, ',"n":2 '),
        chat.format(asked[0], video, ',"oracle_mode":"program"'),
        chat.format(asked[0], '"videos":["/missing.mp4"]', ""),
        '{"messages": [{"role": "user", "content": "<video>What?"}], "videos": ["v.mp4"], "solution": "A"}',
        "not JSON",
    ]
    source = tmp_path / "train_grpo.jsonl"
    source.write_text("\n".join(given) + "\n\n", encoding="utf-8")
    out = tmp_path / "out"
    log = tmp_path / "asked"
    argv = ["--rows", str(source), "--model", "m", "--output", str(out), "--backbone", f"log={log}"]
    assert main(argv, load=load_planning) == 0
    made = (out / "grpo.jsonl").read_text(encoding="utf-8").split("\n")
    for number, mode in enumerate(("native", "program", "native")):
        assert json.loads(made[number]) == {**json.loads(given[number]), "oracle_mode": mode}
    assert [json.loads(made[number]) for number in (3, 4)] == [json.loads(given[number]) for number in (3, 4)]
    assert made[5:] == [*given[5:], "", ""], "what cannot be read stays as it is"
    assert len(log.read_text().splitlines()) == 2, "the same question was asked twice"
    shown = capsys.readouterr().out
    assert "oracle modes filled in: native 2, program 1; 1 rows already had one" in shown
    assert "3 rows still lack one:\n  line 5: VideoError: " in shown

    # GRPO gives the mode reward now: a native program for (0) earns it, one of several steps does not.
    modes = {row.id: row for row in read_grpo_rows(out / "grpo.jsonl").rows}
    right = Execution("ok", Answer("A", 0.9, raw="A"))
    native = parse_program(
        "<code>\ndef execute_command(video, question):\n"
        "    return query_native(video, question, choices)\n</code>"
    )
    for name, mode in (("line 1", "native"), ("line 2", "program")):
        row = modes[name]
        for written, earns in ((native, "native"), (parse_program(RIGHT), "program")):
            scored = score(row.kind, row.right, row.oracle_mode, (written, right))
            assert scored.mode_consistency == (mode == earns)


def test_relative_paths_hold_in_the_new_folder(tmp_path: Path) -> None:
    make_video(tmp_path / "data/v.mp4", "red")
    source = tmp_path / "data/rows.jsonl"
    content = json.dumps(f"<video>{QUESTION.format(0)}")
    source.write_text(
        f'{{"messages":[{{"role":"user","content":{content}}}], "videos":["v.mp4"], "solution":"A"}}\n'
    )
    out = tmp_path / "out"
    assert main(["--rows", str(source), "--model", "m", "--output", str(out)], load=load_planning) == 0
    (row,) = read_grpo_rows(out / "grpo.jsonl").rows
    assert (row.video, row.oracle_mode) == (tmp_path / "data/v.mp4", "native")
