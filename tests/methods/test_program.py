"""The methods that write programs, in runs and on the command line: what they record, what tables show,
which settings reach them, and that no right answer reaches a planner."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support import ROOT
from tests.support import reason_world as world
from tests.support.fakes import load_fake, make_benchmark, make_video
from tests.support.infer_world import SRT
from tests.support.making_videos import as_pocket
from tests.support.method_world import NO_MODELS, OPTIONS, context, item
from tests.support.reason_world import BROKEN, NATIVE, QUESTION, SceneBackbone, ScriptedPlanner
from videopro.backbones.wrappers import Meter
from videopro.commands import compare, infer
from videopro.commands.ask import command as ask
from videopro.errors import ConfigError
from videopro.methods import create
from videopro.methods.program import method as program_module
from videopro.modules import library as module_library
from videopro.modules.calls import MODULES, CallCache
from videopro.modules.library import available_modules
from videopro.modules.loading import ModuleModels
from videopro.modules.reference import api_reference
from videopro.pocket.teacher.faults import SHARES
from videopro.question import prompts
from videopro.traces import SCHEMA, Cost, read_traces

CONFIGS = ROOT / "configs" / "compare"


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(module_library, "_cache", CallCache())
    monkeypatch.setenv("VIDEOPRO_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two videos with three questions each; the third question of each has a wrong gold answer."""
    folder = tmp_path_factory.mktemp("colours")
    make_benchmark(folder, videos=2)
    as_pocket(*folder.rglob("*.mp4"))
    return folder


# ---- one question through a method -----------------------------------------------------------------------


def test_the_teachers_program_is_the_same_whatever_else_an_item_holds() -> None:
    """Through the whole method: with every other field removed, and with a false right answer."""
    bare = item(id="other", answer=None, video_key="w")
    full = item(
        groups={"family": "attribute", "duration": "long"},
        evidence=((10.0, 20.0),),
        video=Path("elsewhere.mp4"),
    )
    lying = item(answer="C", groups={"family": "count"}, evidence=((50.0, 60.0),))
    for seed in range(4):
        raws = []
        for variant in (bare, full, lying):
            method = create("videopro", {**OPTIONS, "planner": "pocket-teacher"})
            result = method.run(variant, context(SceneBackbone(), seed=seed))
            raws.append([round_.raw for round_ in result.rounds if round_.prompt_kind != "fallback"])
        assert raws[0] == raws[1] == raws[2]


def test_the_backbone_plans_from_the_video_and_answers_without_its_adapter() -> None:
    backbone = SceneBackbone(lambda request: NATIVE)
    method = create("adaptive", OPTIONS)
    result = method.run(item(), context(backbone))
    ((request, frames, adapted),) = backbone.written
    assert (frames, adapted, backbone.prefixes) == (12, True, 1)
    assert "Available functions" not in request.text, "an adapter was trained on the short form"
    assert [adapted for _, adapted in backbone.asked] == [False]
    assert result.final is not None
    assert (result.final.letter, result.selected, result.refined) == ("D", 0, 0)
    assert [(r.prompt_kind, r.mode) for r in result.rounds] == [("plan", "native")]
    # 12 frames for the planner, 12 looked at by the program; 200 tokens of the one prompt, 112 of the other.
    assert (result.cost.frames, result.cost.calls, result.cost.tokens_in) == (24, 2, 312)
    assert {"decode", "encode", "plan", "run", "backbone", "modules"} <= set(result.cost.stages)


@pytest.mark.parametrize(
    ("options", "frames", "reference"),
    [
        ({"planner_frames": 0}, 0, False),
        ({"planner_frames": 5}, 5, False),
        ({"planner_prompt": "full"}, 12, True),
        ({"planner_prompt": "short"}, 12, False),
    ],
)
def test_what_the_planner_gets_is_a_setting(options: dict[str, Any], frames: int, reference: bool) -> None:
    backbone = SceneBackbone(lambda request: NATIVE)
    create("program", {**OPTIONS, **options}).run(item(), context(backbone))
    ((request, seen, _),) = backbone.written
    assert seen == frames
    assert ("Available functions" in request.text) == reference
    assert "Do not call query_native" in request.text


def test_modules_may_answer_with_the_adapter_on() -> None:
    backbone = SceneBackbone(lambda request: NATIVE)
    create("adaptive", {**OPTIONS, "answer_adapter": "on"}).run(item(), context(backbone))
    assert [adapted for _, adapted in backbone.asked] == [True]


def test_questions_with_other_subtitles_get_other_modules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two questions about a video, one lists subtitles: only its planner sees the subtitle modules."""
    (tmp_path / "a.srt").write_text(SRT)
    planner = ScriptedPlanner(lambda request: NATIVE, is_fine_tuned=False)
    monkeypatch.setattr(program_module, "load_planner", lambda *args, **options: planner)
    method = create("adaptive", OPTIONS)
    items = [item(), item(id="q2", subtitles=tmp_path / "a.srt"), item(id="q3")]
    results = {item.id: result for item, result in method.run_video(items, context(SceneBackbone()))}
    assert [results[name].notes for name in ("q1", "q2", "q3")] == [
        ("no subtitles",),
        (),
        ("no subtitles",),
    ]
    assert ["get_subtitle_hints" in request.api_reference for request in planner.requests] == [
        False,
        False,
        True,
    ]
    method = create("adaptive", {**OPTIONS, "subtitles": "none"})
    results = {item.id: result for item, result in method.run_video(items, context(SceneBackbone()))}
    assert results["q2"].notes == ("no subtitles",)


def test_an_unreadable_subtitle_file_fails_only_its_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planner = ScriptedPlanner(lambda request: NATIVE)
    monkeypatch.setattr(program_module, "load_planner", lambda *args, **options: planner)
    items = [item(), item(id="q2", subtitles=tmp_path / "none.srt")]
    answered = create("adaptive", OPTIONS).run_video(items, context(SceneBackbone()))
    results = {item.id: result for item, result in answered}
    assert results["q1"].final is not None
    assert results["q2"].error is not None
    assert results["q2"].error.type == "SubtitleError"


def test_costs_of_several_questions_add_up_to_what_was_done(monkeypatch: pytest.MonkeyPatch) -> None:
    backbone = SceneBackbone(lambda request: NATIVE)
    method = create("adaptive", OPTIONS)
    items = [item(id=f"q{i}", question=replace(QUESTION, text=f"Which {i}?")) for i in range(3)]
    outer = Meter()
    results = [result for _, result in method.run_video(items, context(backbone))]
    total = sum((result.cost for result in results), Cost())
    # The planner's 12 frames are decoded and encoded once; each question looks at 12 and asks twice.
    assert (round(total.frames, 6), total.calls, total.tokens_in) == (12 + 3 * 12, 6, 3 * 312)
    assert backbone.prefixes == 1
    # One after the other it is one encoding too; and what the modules cache costs nothing again.
    backbone = SceneBackbone(lambda request: NATIVE)
    turns = create("adaptive", {**OPTIONS, "max_parallel": 1}).run_video(items, context(backbone))
    in_turn = sum((result.cost for _, result in turns), Cost())
    assert (round(in_turn.frames, 6), in_turn.calls, in_turn.tokens_in, backbone.prefixes) == (12, 3, 600, 1)
    assert total.seconds <= outer.take().seconds


# ---- runs ------------------------------------------------------------------------------------------------


def flags(root: Path, output: Path, *more: str) -> list[str]:
    base = ["--benchmark", "jsonl", "--root", str(root), "--model", "m", "--output", str(output)]
    return [*base, "--options", *NO_MODELS, *more]


def test_a_run_with_the_teacher_and_its_summary(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "run"
    argv = flags(root, output, "--method", "videopro", "--planner", "pocket-teacher", "--tau", "0.95")
    assert infer.main(argv, load=load_fake) == 0
    traces = read_traces(output / "traces.jsonl")
    assert len(traces) == 6
    for trace in traces:
        assert trace.schema == SCHEMA
        assert trace.error is None
        # The fake answers with 0.9: below this tau every answer is refined.
        assert trace.refined == 1
        assert [round_.prompt_kind for round_ in trace.rounds[:1]] == ["plan"]
        assert trace.selected is not None
        assert trace.final is not None
        counts = trace.rounds[trace.selected].execution
        assert counts is not None
        assert counts.answer == trace.final
        assert trace.rounds[0].notes["fault"] in ("none", *SHARES)
    summary = json.loads((output / "summary.json").read_text())
    assert summary["modes"]["program"] == 1.0
    assert summary["modes"]["refined"] == 1.0
    assert summary["settings"]["planner"] == "pocket-teacher"
    assert summary["subtitles"] == "listed"
    written = sum(len(turn.raw) for trace in traces for turn in trace.rounds[: trace.refined + 1])
    assert summary["output"]["characters"] == pytest.approx(written / 6)
    shown = capsys.readouterr().out
    assert "refined 100.0 %" in " ".join(shown.split())
    # The same command resumes, and finds everything done; another tau is another run.
    assert infer.main(argv, load=load_fake) == 0
    assert infer.main([*argv[:-1], "0.5"], load=load_fake) == 2
    assert "method.tau: the run has 0.95, this command 0.5" in capsys.readouterr().err


def test_several_methods_in_one_table_from_one_command(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    output = tmp_path / "table"
    argv = ["--methods", "native", "program", "videopro", *flags(root, output), "--planner", "pocket-teacher"]
    assert compare.main(argv, load=load_fake) == 0
    table = capsys.readouterr().out.partition(" gap")[2].partition("─\n")[2].partition("n: scored")[0]
    cells_of = [line.split() for line in table.splitlines() if line.strip()]
    rows = {cells[0]: cells for cells in cells_of}
    assert list(rows) == ["native", "program", "videopro"]
    summaries = {name: json.loads((output / name / "summary.json").read_text()) for name in rows}
    assert summaries["native"]["modes"] == {
        "native": 1.0,
        "program": 0.0,
        "none": 0.0,
        "refined": 0.0,
        "fallback": 0.0,
    }
    for name, cells in rows.items():
        assert cells[1] == "6"
        assert float(cells[3]) == pytest.approx(100 * summaries[name]["accuracy"], abs=0.05)
    # The same from the folders of the runs.
    capsys.readouterr()
    assert compare.main([str(output / "native"), str(output / "program")]) == 0
    assert "points more than the first row" in " ".join(capsys.readouterr().out.split())
    # Or from the folder with all of them, direct answers first.
    assert compare.main([str(output)]) == 0
    lines = capsys.readouterr().out.partition("─\n")[2].splitlines()
    assert [line.split()[0] for line in lines[:3]] == ["native", "program", "videopro"]


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.yaml")), ids=lambda p: p.name)
def test_shipped_comparisons(path: Path) -> None:
    """Every file in configs/compare has known keys of the right types, for each of its methods."""
    config = compare.COMMAND.parse(["--config", str(path)])
    each = compare.settings_of_each(config)
    assert list(each) == list(config.methods)
    assert {settings.limit for settings in each.values()} == {config.limit}


BAD_FLAGS = [
    (["--method", "native", "--tau", "0.5"], "'native' has no such setting; methods that have it: videopro"),
    (["--method", "program", "--max-rounds", "2"], "--max-rounds: method 'program' has no such setting"),
    (["--method", "videopro", "--planner", "nobody"], "planner 'nobody'"),
    (
        ["--method", "videopro", "--final", "first"],
        'invalid value "first" for --final. Choose from: "last", "last-answered", "best"',
    ),
    (["--method", "videopro", "--tau", "2"], "tau is 2.0"),
    (["--method", "videopro", "--refine-below", "0.5"], "refine_below is 0.5"),
    (
        ["--method", "videopro", "--planner", "pocket-teacher", "--planner-frames", "8"],
        "does not see the video",
    ),
    (["--method", "videopro", "--tau", "0.5", "--options", "tau=0.6"], "--options says tau=0.6"),
]


@pytest.mark.parametrize(("argv", "expected"), BAD_FLAGS, ids=[expected for _, expected in BAD_FLAGS])
def test_invalid_flags_are_refused_before_anything_is_written(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], argv: list[str], expected: str
) -> None:
    output = tmp_path / "run"
    base = ["--benchmark", "jsonl", "--root", str(root), "--model", "m", "--output", str(output)]
    assert infer.main([*base, *argv], load=load_fake) == 2
    assert expected in capsys.readouterr().err
    assert not output.exists()


BAD_COMPARISONS = [
    (["--methods", "native"], "give two or more"),
    (["--methods", "native", "magic"], "unknown method 'magic'"),
    (
        ["--methods", "native", "program", "--tau", "0.5"],
        "--tau: methods 'native', 'program' have no such setting; methods that have it: videopro",
    ),
    (["--methods", "native", "program", "--options", "framse=3"], "has a setting 'framse'"),
    (["--methods", "native", "program", "--options", "tau=0.5"], "native, program has a setting 'tau'"),
    (["--methods", "native", "vca", "--preset", "papper"], "has a setting 'preset' that can be 'papper'"),
    (["nowhere"], "nowhere: contains no run, as there is no such folder; give the folder of a run"),
]


@pytest.mark.parametrize(
    ("argv", "expected"), BAD_COMPARISONS, ids=[expected for _, expected in BAD_COMPARISONS]
)
def test_invalid_comparisons_are_refused(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], argv: list[str], expected: str
) -> None:
    base = ["--benchmark", "jsonl", "--root", str(root), "--model", "m", "--output", str(tmp_path / "run")]
    assert compare.main([*argv, *base] if argv[0].startswith("-") else argv, load=load_fake) == 2
    assert expected in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_written_config_makes_the_same_run(root: Path, tmp_path: Path) -> None:
    argv = flags(root, tmp_path / "one", "--method", "program", "--planner", "pocket-teacher", "--limit", "1")
    assert infer.main(argv, load=load_fake) == 0
    again = ["--config", str(tmp_path / "one" / "config.yaml"), "--output", str(tmp_path / "two")]
    assert infer.main(again, load=load_fake) == 0
    first, second = (read_traces(tmp_path / name / "traces.jsonl") for name in ("one", "two"))
    assert first[0].run_key == second[0].run_key
    assert first[0].rounds[0].raw == second[0].rounds[0].raw


# ---- the user's own video --------------------------------------------------------------------------------


def test_ask_shows_the_program_and_each_call(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    replies = {"plan": BROKEN, "bug_fix": NATIVE}
    planner = ScriptedPlanner(lambda request: replies[request.kind])
    monkeypatch.setattr(program_module, "load_planner", lambda *args, **options: planner)
    make_video(tmp_path / "film.mp4", "blue")
    argv = [str(tmp_path / "film.mp4"), "Which [colour]?", "--choices", "red", "blue", "--model", "m"]
    assert ask.main([*argv, "--method", "videopro", "--options", *NO_MODELS], load=load_fake) == 0
    shown = capsys.readouterr().out
    order = [
        "program (",
        "A plan.",
        "return query_mc(clips, question, choices)",
        "failed: NameError, line 2: name 'clips' is not defined",
        "refined because the first failed",
        "return query_native(video, question, choices)",
        "query_native(video=Video(2.0 s), question=Which [colour]?, choices=['red', 'blue'])",
        "Answer('B', confidence 0.900)",
        "it answered B, confidence 0.900",
        "B. blue",
    ]
    places = [shown.find(text) for text in order]
    assert -1 not in places, [text for text, place in zip(order, places, strict=True) if place < 0]
    assert places == sorted(places)


# ---- without a group of modules (Table 3) ----------------------------------------------------------------


def test_a_group_left_out_raises_in_programs_and_leaves_the_reference(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The scene's program retrieves first: without retrieval it fails with a readable error at that line, and
    the planner never saw the module; the refinement sees the error in its log."""
    planner = ScriptedPlanner(lambda request: world.LOCAL, is_fine_tuned=False)
    monkeypatch.setattr(program_module, "load_planner", lambda *args, **options: planner)
    monkeypatch.setattr(ModuleModels, "index", lambda self, video: (world.SceneIndex(), ()))
    whole = create("adaptive", OPTIONS).run(item(), context(SceneBackbone()))
    assert whole.final is not None
    assert whole.final.letter == "B"
    assert "`get_informative_clips(" in planner.requests[-1].api_reference
    cut = create("videopro", {**OPTIONS, "without": ("retrieval",), "fallback": "none"})
    result = cut.run(item(), context(SceneBackbone()))
    first = result.rounds[0].execution
    assert first is not None
    assert (first.status, first.answer.letter) == ("failed", None)
    assert first.error is not None
    assert (first.error.type, first.error.line) == ("UnavailableError", 2)
    assert (
        first.error.message == "get_informative_clips() cannot be used: this run is without multimodal "
        "retrieval; do without it"
    )
    assert [call.fn for call in first.calls] == ["get_informative_clips"]
    assert "UnavailableError" in first.calls[0].result
    plan, refinement = planner.requests[-2:]
    for request in (plan, refinement):
        assert "## Temporal localization" in request.api_reference
        assert "## Multimodal retrieval" not in request.api_reference
        assert "`get_informative" not in request.api_reference + request.prompt
    assert "this run is without multimodal retrieval" in refinement.prompt


@pytest.mark.parametrize("group", ["retrieval", "localization", "extraction", "context"])
def test_no_example_shows_what_was_left_out(group: str) -> None:
    """Every module call in a prompt, worked examples included, is one that its reference lists."""
    reference = api_reference(available_modules(world.context(without=(group,))))
    prompt = prompts.plan(QUESTION, reference=reference, examples=True)
    names = {name for name, module in MODULES.items() if module.family == group}
    assert names
    assert not [name for name in names if f"{name}(" in prompt]


def test_without_is_a_part_of_the_run() -> None:
    def identity(**options: Any) -> dict[str, Any]:
        return create("adaptive", {**OPTIONS, **options}).identity()

    assert identity(without=("retrieval",))["without"] == ["retrieval"]
    assert identity(without="context")["without"] == ["context"]
    both = [identity(without=names) for names in (("retrieval", "context"), ["context", "retrieval"])]
    assert both[0] == both[1]
    for name in ("answering", "retreival"):
        with pytest.raises(ConfigError, match=f"without: unknown group of modules '{name}'"):
            create("adaptive", {"without": (name,)})


def test_without_on_the_command_line(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = flags(root, tmp_path / "run", "--method", "adaptive", "--planner", "pocket-teacher")
    argv = [*whole, "--without", "retrieval", "context"]
    assert infer.main(argv, load=load_fake) == 0
    config = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())
    assert config["identity"]["method"]["without"] == ["context", "retrieval"]
    # The same command resumes, from flags and from the file that the run wrote; another does not.
    assert infer.main(argv, load=load_fake) == 0
    assert infer.main(["--config", str(tmp_path / "run" / "config.yaml")], load=load_fake) == 0
    assert infer.main(whole, load=load_fake) == 2
    assert "method.without" in capsys.readouterr().err
    assert infer.main([*flags(root, tmp_path / "n"), "--without", "retrieval"], load=load_fake) == 2
    assert "--without: method 'native' has no such setting" in capsys.readouterr().err
