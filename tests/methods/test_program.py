"""The methods that write programs, in runs and on the command line."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support import ROOT
from tests.support import scenes as world
from tests.support.colours import SRT, load_fake, make_benchmark
from tests.support.making_videos import as_pocket
from tests.support.scenes import (
    NATIVE,
    NO_MODELS,
    OPTIONS,
    QUESTION,
    SceneBackbone,
    ScriptedPlanner,
    context,
    item,
)
from videopro.backbones.wrappers import Meter
from videopro.benchmarks import Item
from videopro.commands import compare, infer
from videopro.errors import ConfigError
from videopro.methods import create
from videopro.methods.program import method as program_module
from videopro.modules.loading import ModuleModels
from videopro.pocket.teacher.faults import SHARES
from videopro.traces import SCHEMA, Cost, read_traces

CONFIGS = ROOT / "configs" / "compare"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two videos with three questions each; the third question of each has a wrong gold answer."""
    folder = tmp_path_factory.mktemp("colours")
    make_benchmark(folder, videos=2)
    as_pocket(*folder.rglob("*.mp4"))
    return folder


def run(name: str, *items: Item, backbone: SceneBackbone | None = None, seed: int = 0, **options: Any) -> Any:
    """The results of questions about the minute (one, if none is given)."""
    backbone = backbone if backbone is not None else SceneBackbone()
    method = create(name, {**OPTIONS, **options})
    results = {
        asked.id: result
        for asked, result in method.run_video(items or [item()], context(backbone, seed=seed))
    }
    return results if items else results["q1"]


def planning(monkeypatch: pytest.MonkeyPatch, *replies: str, **settings: Any) -> ScriptedPlanner:
    """The planner of all methods: its first reply, then, for refinements, its second."""
    planner = ScriptedPlanner(lambda request: replies[request.kind != "plan"], **settings)
    monkeypatch.setattr(program_module, "load_planner", lambda *args, **options: planner)
    return planner


def test_the_teachers_program_is_the_same_whatever_else_an_item_holds() -> None:
    """Through the whole method: with every other field removed, and with a false right answer."""
    bare = item(answer=None, video_key="w")
    full = item(groups={"family": "attribute"}, evidence=((10.0, 20.0),), video=Path("elsewhere.mp4"))
    lying = item(answer="C", groups={"family": "count"}, evidence=((50.0, 60.0),))
    for seed in range(4):
        raws = [
            [turn.raw for turn in run("videopro", asked, seed=seed, planner="pocket-teacher")["q1"].rounds]
            for asked in (bare, full, lying)
        ]
        assert raws[0] == raws[1] == raws[2]


def test_the_backbone_plans_from_the_video_and_answers_without_its_adapter() -> None:
    backbone = SceneBackbone(lambda request: NATIVE)
    result = run("adaptive", backbone=backbone)
    ((request, frames, adapted),) = backbone.written
    assert (frames, adapted, backbone.prefixes) == (12, True, 1)
    assert "Available functions" not in request.text, "an adapter was trained on the short form"
    assert [adapted for _, adapted in backbone.asked] == [False]
    assert (result.final.letter, result.selected, result.refined) == ("D", 0, 0)
    assert [(r.prompt_kind, r.mode) for r in result.rounds] == [("plan", "native")]
    # 12 frames for the planner, 12 looked at by the program; 200 tokens of the one prompt, 112 of the other.
    assert (result.cost.frames, result.cost.calls, result.cost.tokens_in) == (24, 2, 312)
    assert {"decode", "encode", "plan", "run", "backbone", "modules"} <= set(result.cost.stages)


@pytest.mark.parametrize(
    ("options", "frames", "reference"),
    [
        ({"planner_frames": 0}, 0, False),
        ({"planner_prompt": "full"}, 12, True),
    ],
)
def test_what_the_planner_gets_is_a_setting(options: dict[str, Any], frames: int, reference: bool) -> None:
    backbone = SceneBackbone(lambda request: NATIVE)
    run("program", backbone=backbone, **options)
    ((request, seen, _),) = backbone.written
    assert seen == frames
    assert ("Available functions" in request.text) == reference
    assert "Do not call query_native" in request.text


def test_questions_with_other_subtitles_get_other_modules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of three questions about a video, one lists subtitles: only its planner sees the subtitle modules. One
    whose file cannot be read fails alone."""
    (tmp_path / "a.srt").write_text(SRT)
    planner = planning(monkeypatch, NATIVE, is_fine_tuned=False)
    listed = item(id="q2", subtitles=tmp_path / "a.srt")
    broken = item(id="q4", subtitles=tmp_path / "none.srt")
    results = run("adaptive", item(), listed, item(id="q3"), broken)
    assert results["q4"].error.type == "SubtitleError"
    assert [results[name].notes for name in ("q1", "q2", "q3")] == [("no subtitles",), (), ("no subtitles",)]
    shown = ["get_subtitle_hints" in request.api_reference for request in planner.requests]
    assert shown == [False, False, True]
    assert run("adaptive", listed, subtitles="none")["q2"].notes == ("no subtitles",)


def test_costs_of_several_questions_add_up_to_what_was_done() -> None:
    items = [item(id=f"q{i}", question=replace(QUESTION, text=f"Which {i}?")) for i in range(3)]

    def counts(**options: Any) -> tuple[float, ...]:
        backbone, outer = SceneBackbone(lambda request: NATIVE), Meter()
        results = run("adaptive", *items, backbone=backbone, **options)
        total = sum((result.cost for result in results.values()), Cost())
        assert total.seconds <= outer.take().seconds
        return (round(total.frames, 6), total.calls, total.tokens_in, backbone.prefixes)

    # The planner's 12 frames are decoded and encoded once; each question looks at 12 and asks twice.
    assert counts() == (12 + 3 * 12, 6, 3 * 312, 1)
    # One after the other it is one encoding too; and what the modules cache costs nothing again.
    assert counts(max_parallel=1) == (12, 3, 600, 1)


def test_several_methods_in_one_table_from_one_command_and_again_from_their_folders(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    output = tmp_path / "table"
    teacher = ["--planner", "pocket-teacher", "--options", *NO_MODELS, "tau=0.95"]
    argv = ["--benchmark", "jsonl", "--root", str(root), "--model", "m", "--output", str(output), *teacher]
    assert compare.main(["--methods", "native", "program", "videopro", *argv], load=load_fake) == 0
    table = capsys.readouterr().out.partition(" gap")[2].partition("─\n")[2].partition("n: scored")[0]
    rows = {line.split()[0]: line.split() for line in table.splitlines() if line.strip()}
    assert list(rows) == ["native", "program", "videopro"]
    summaries = {name: json.loads((output / name / "summary.json").read_text()) for name in rows}
    none = dict.fromkeys(("native", "program", "none", "refined", "fallback"), 0.0)
    assert summaries["native"]["modes"] == {**none, "native": 1.0}
    for name, cells in rows.items():
        assert cells[1] == "6"
        assert float(cells[3]) == pytest.approx(100 * summaries[name]["accuracy"], abs=0.05)
    # The fake answers with 0.9: below this tau every answer is refined.
    assert summaries["videopro"]["modes"] == {**none, "program": 1.0, "refined": 1.0}
    assert summaries["videopro"]["settings"]["planner"] == "pocket-teacher"
    assert summaries["videopro"]["subtitles"] == "listed"
    traces: list[Any] = read_traces(output / "videopro" / "traces.jsonl")
    for trace in traces:
        assert (trace.schema, trace.error, trace.refined) == (SCHEMA, None, 1)
        assert trace.rounds[0].prompt_kind == "plan"
        assert trace.rounds[trace.selected].execution.answer == trace.final
        assert trace.rounds[0].notes["fault"] in ("none", *SHARES)
    # The same from the folder with all of them, direct answers first.
    assert compare.main([str(output)]) == 0
    lines = capsys.readouterr().out.partition("─\n")[2].splitlines()
    assert [line.split()[0] for line in lines[:3]] == ["native", "program", "videopro"]
    # The same command resumes, and finds everything done; and with another tau it is another run.
    config = ["--config", str(output / "videopro" / "config.yaml")]
    assert infer.main(config, load=load_fake) == 0
    assert infer.main([*config, "--tau", "0.5"], load=load_fake) == 2
    assert "method.tau: the run has 0.95, this command 0.5" in capsys.readouterr().err


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.yaml")), ids=lambda p: p.name)
def test_shipped_comparisons(path: Path) -> None:
    """Every file in configs/compare has known keys of the right types, for each of its methods."""
    config = compare.COMMAND.parse(["--config", str(path)])
    each = compare.settings_of_each(config)
    assert list(each) == list(config.methods)
    assert {settings.limit for settings in each.values()} == {config.limit}


def test_a_group_left_out_raises_in_programs_and_leaves_the_reference(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The scene's program retrieves first: without retrieval it fails with a readable error at that line, and
    the planner never saw the module; the refinement sees the error in its log."""
    planner = planning(monkeypatch, world.LOCAL, world.LOCAL, is_fine_tuned=False)
    monkeypatch.setattr(ModuleModels, "index", lambda self, video: (world.SceneIndex(), ()))
    assert run("adaptive").final.letter == "B"
    assert "`get_informative_clips(" in planner.requests[-1].api_reference
    first = run("videopro", without=("retrieval",), fallback="none").rounds[0].execution
    assert (first.status, first.answer.letter) == ("failed", None)
    assert (first.error.type, first.error.line) == ("UnavailableError", 2)
    assert "get_informative_clips() cannot be used: this run is without" in first.error.message
    assert [call.fn for call in first.calls] == ["get_informative_clips"]
    assert "UnavailableError" in first.calls[0].result
    plan, refinement = planner.requests[-2:]
    for request in (plan, refinement):
        assert "## Temporal localization" in request.api_reference
        assert "## Multimodal retrieval" not in request.api_reference
        assert "`get_informative" not in request.api_reference + request.prompt
    assert "this run is without multimodal retrieval" in refinement.prompt


def test_without_is_a_part_of_the_run() -> None:
    def identity(**options: Any) -> dict[str, Any]:
        return create("adaptive", {**OPTIONS, **options}).identity()

    assert identity(without=("retrieval",))["without"] == ["retrieval"]
    assert identity(without="context")["without"] == ["context"]
    both = [identity(without=names) for names in (("retrieval", "context"), ["context", "retrieval"])]
    assert both[0] == both[1]
    with pytest.raises(ConfigError, match="without: unknown group of modules 'answering'"):
        create("adaptive", {"without": ("answering",)})
