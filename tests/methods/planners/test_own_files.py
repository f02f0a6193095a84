"""A planner's prompts from a user's file: what is read and refused, and what reaches planners and keys."""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support import ROOT
from tests.support.colours import load_fake, make_benchmark
from tests.support.scenes import (
    BROKEN,
    LOCAL,
    NATIVE,
    NO_MODELS,
    OPTIONS,
    QUESTION,
    SceneBackbone,
    ScriptedPlanner,
    context,
    item,
)
from videopro.backbones import ModelRecord, PlannerRecord
from videopro.benchmarks import Protocol
from videopro.benchmarks.base import ROBUST
from videopro.commands import infer
from videopro.data_synthesis.settings import SynthesisConfig
from videopro.errors import ConfigError, RunError
from videopro.methods import Questions, RunRequest, create, prepare
from videopro.methods.planners import PromptFile, read_prompts
from videopro.methods.program import method as program_module
from videopro.question import Question, prompts
from videopro.runs import RunFolder

EXAMPLE = ROOT / "docs" / "examples" / "planner_prompts.yaml"
KINDS = ("plan", "plan_program", "bug_fix", "native_refinement", "program_refinement")
TEXTS = {
    "plan": "Plan: {question} {choices}",
    "bug_fix": "Fix: {question} {choices} {program} {log}",
    "native_refinement": "Look closer: {question} {choices} was {answer} at {confidence}",
    "program_refinement": "Improve: {question} {choices} {program} after {log}",
}
CHOICES = "A. blue\nB. red\nC. green\nD. grey"


def write(path: Path, texts: Mapping[str, Any]) -> str:
    path.write_text(yaml.safe_dump(dict(texts)))
    return str(path)


def test_slots_are_filled_and_other_braces_stay() -> None:
    text = "{question}\n{choices}\n{api}\n{{question}} {'a': 1} {} f'{x:.1f}'"
    file = PromptFile({"plan": text, "api": "call({question})"}, "f")
    question = replace(QUESTION, text="Which {choices}?")
    expected = "Which {choices}?\n" + CHOICES + "\ncall({question})\n{question} {'a': 1} {} f'{x:.1f}'"
    assert file.fill("plan", question, reference="ours") == expected
    plain = PromptFile({"plan": "{question}{choices}{api}"}, "f")
    assert plain.fill("plan", QUESTION, reference="ours").endswith("D. greyours")


def test_a_folder_holds_one_text_a_file(tmp_path: Path) -> None:
    for kind, text in TEXTS.items():
        (tmp_path / f"{kind}.txt").write_text(text + "\n")
    (tmp_path / "plan.txt").write_text(TEXTS["plan"] + "\n\n")
    (tmp_path / "README.md").write_text("no prompt")
    read = read_prompts(str(tmp_path)).texts
    assert read == {**TEXTS, "plan": TEXTS["plan"] + "\n"}
    assert read == read_prompts(write(tmp_path / "all.yaml", read)).texts
    (tmp_path / "plan.txt").write_bytes(b"\xff{question}")
    with pytest.raises(ConfigError, match=r"plan.txt: cannot be read .* pass a text file in UTF-8"):
        read_prompts(str(tmp_path))


def test_characters_that_read_as_a_slot_are_none() -> None:
    file = PromptFile({**TEXTS, "native_refinement": "{question} {choices} {{log}} {{api}}"}, "f")
    assert not file.shows("native_refinement", "log")
    assert file.shows("bug_fix", "log")
    file.require_api("a test")


def refined(first: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **more: Any) -> list[str]:
    """The prompts of a question whose first program is `first`."""
    planner = ScriptedPlanner(lambda request: first if request.kind == "plan" else LOCAL)
    monkeypatch.setattr(program_module, "load_planner", lambda *args, **settings: planner)
    options = {**OPTIONS, "prompts": write(tmp_path / "p.yaml", {**TEXTS, **more})}
    create("videopro", options).run(item(), context(SceneBackbone()))
    return [request.prompt for request in planner.requests]


def test_planners_are_asked_with_the_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = f"Plan: {QUESTION.text} {CHOICES}"
    # Half of the video is grey: D with 0.4, which is below tau.
    assert refined(NATIVE, tmp_path, monkeypatch) == [
        plan,
        f"Look closer: {QUESTION.text} {CHOICES} was D at 0.40",
    ]
    first, second = refined(BROKEN, tmp_path, monkeypatch)
    assert first == plan
    assert second.startswith(f"Fix: {QUESTION.text} {CHOICES} def execute_command(video, question):")
    assert "NameError: name 'clips' is not defined" in second
    (asked, _) = refined(NATIVE, tmp_path, monkeypatch, plan="{question}{choices}{api}")
    assert "query_native(video, question, choices)" in asked
    (asked, _) = refined(NATIVE, tmp_path, monkeypatch, plan="{question}{choices}{api}", api="all")
    assert asked.endswith("D. greyall")


def first_prompt(record: PlannerRecord | None, name: str = "adaptive", **options: Any) -> str:
    """Of a planner with this record."""
    backbone = SceneBackbone(lambda request: NATIVE)
    backbone.planner = record
    create(name, {**OPTIONS, **options}).run(item(), context(backbone))
    return backbone.written[0][0].text


def test_a_planner_brings_the_prompts_that_it_recorded() -> None:
    record = PlannerRecord(prompts={"plan": TEXTS["plan"]})
    assert first_prompt(record) == f"Plan: {QUESTION.text} {CHOICES}"
    assert "Write in a few words" in first_prompt(record, planner_prompt="short")
    with pytest.raises(ConfigError, match="prompts recorded by scenes: has no bug_fix"):
        first_prompt(record, "videopro")


def test_another_form_than_that_of_the_training_is_named() -> None:
    backbone = SceneBackbone(lambda request: NATIVE)

    def notes(record: PlannerRecord, **options: Any) -> str:
        backbone.planner, backbone.record = record, ModelRecord(frames=6, planner=record)
        result = create("adaptive", {**OPTIONS, **options}).run(item(), context(backbone))
        return "".join(note for note in result.notes if "trained" in note)

    plain, compact = PlannerRecord(), PlannerRecord(reference="compact")
    assert notes(plain) == notes(plain, planner_prompt="short") == notes(compact, reference="compact") == ""
    assert "default short prompts, but the settings use default full prompts" in notes(
        plain, planner_prompt="full"
    )
    assert "with frames=6, but runs with planner_frames=4" in notes(plain, planner_frames=4)
    assert "reference=none, but the settings use reference=compact" in notes(plain, reference="compact")


def test_open_questions_are_refused_with_what_helps() -> None:
    backbone = SceneBackbone(lambda request: NATIVE)
    backbone.planner = PlannerRecord(prompts=TEXTS)
    asked = item(question=Question.open("Which?"))
    with pytest.raises(RunError, match=r"recorded by scenes: .* planner_prompt=full"):
        create("videopro", OPTIONS).run(asked, context(backbone))


FRAMES = "- `extract_frames(video, num_frames=32)`"
LINE = (
    f"{FRAMES}: Take frames of the whole video or of a clip, evenly spread, at most one a second and at most "
    "num_frames -> a list of frames in order of time\n"
)
SHORT = prompts.plan(QUESTION)
IMPORTS = "What a program may import"


def test_a_planner_is_told_what_it_was_trained_with() -> None:
    assert first_prompt(PlannerRecord()) == SHORT
    compact = first_prompt(PlannerRecord(reference="compact"))
    assert LINE in compact
    # The form of a row: prompts.plan with this reference, and nothing else.
    reference = compact.split("Available functions\n\n")[1].split("\nQuestion:")[0]
    assert compact == prompts.plan(QUESTION, reference=reference)
    assert IMPORTS not in compact
    assert f"{FRAMES}\n" in first_prompt(PlannerRecord(reference="signatures"))
    assert IMPORTS in first_prompt(None, planner_prompt="full")


def test_a_setting_counts() -> None:
    trained = PlannerRecord(reference="compact")
    assert first_prompt(trained, reference="none") == first_prompt(trained, planner_prompt="short") == SHORT
    compact = first_prompt(trained)
    assert first_prompt(PlannerRecord(), reference="compact") == compact
    assert first_prompt(None, planner_prompt="short", reference="compact") == compact


@pytest.mark.parametrize(
    ("without", "shown"),
    [
        # Nor what has no model or no subtitles here: the clip index, OCR, hints.
        ([], {"trim_frames", "crop_left"}),
        (["extraction", "localization"], set()),
    ],
)
def test_a_group_that_is_left_out_is_not_shown(without: list[str], shown: set[str]) -> None:
    asked = first_prompt(PlannerRecord(reference="signatures"), without=without)
    names = ("get_informative_clips", "run_ocr", "get_subtitle_hints", "trim_frames", "crop_left")
    assert {name for name in names if f"- `{name}(" in asked} == shown
    # Without a reference a planner cannot know.
    assert first_prompt(PlannerRecord(), without=without) == SHORT


def writes(request: Any) -> str:
    """The fake of runs says what it was asked, in a program that runs."""
    return NATIVE.replace("A plan.", f"Asked: {request.text.splitlines()[0]}")


def load_planning(model: str, **settings: Any) -> SceneBackbone:
    """A backbone whose worker processes can load it."""
    return SceneBackbone(writes)


def test_a_run_keeps_its_prompts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root, output, path = tmp_path / "colours", tmp_path / "run", tmp_path / "p.yaml"
    make_benchmark(root, videos=1, questions=2)
    write(path, TEXTS)
    words = ["--benchmark", "jsonl", "--root", str(root), "--model", "m", "--output", str(output)]
    words += ["--method", "videopro", "--prompts", str(path), "--options", *NO_MODELS]
    assert infer.main([*words, "--limit", "1"], load=load_planning) == 0
    identity: Any = RunFolder(output).recorded_identity()
    assert identity["method"]["prompts"] == TEXTS
    key = RunFolder(output).key()

    # Another text is another run.
    write(path, {**TEXTS, "plan": "Plan now: {question} {choices}"})
    assert infer.main(words, load=load_planning) == 2
    assert "method.prompts.plan: the run has 'Plan: {question} {choices}'" in capsys.readouterr().err

    # Without the file the run goes on with its own texts, and records what was asked.
    path.unlink()
    assert infer.main(words, load=load_planning) == 0
    assert "the run continues with the prompts that it recorded" in capsys.readouterr().err
    assert RunFolder(output).key() == key
    traces: list[Any] = RunFolder(output).read()
    assert len(traces) == 2
    for trace in traces:
        assert trace.rounds[0].raw.startswith("<planning>\nAsked: Plan: Which colour is shown")
        assert trace.rounds[0].prompt.text.startswith(f"Plan: {trace.question} A. {trace.choices[0]}\nB. ")


def test_the_example_is_complete_and_runs() -> None:
    file = read_prompts(str(EXAMPLE))
    file.require(KINDS, "a test")  # type: ignore[arg-type]
    file.require_api("a test")
    result: Any = create("videopro", {**OPTIONS, "prompts": str(EXAMPLE)}).run(
        item(), context(SceneBackbone(writes))
    )
    assert "Watch the video" in result.rounds[0].raw
    assert result.rounds[0].execution.status == "ok"


LOOK = "def execute_command(video, question, choices):\n    return query_native(video, question, choices)\n"
FAILING = "def execute_command(video, question):\n    return query_mc(missing, question, ['a', 'b'])\n"


def written(folder: Path, program: str, name: str = "my.py") -> str:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(program)
    return f"file:{folder / name}"


def prepared(planner: str, **options: Any) -> Any:
    questions = Questions(Protocol(parser=ROBUST, reply_tokens=64))
    chosen = {**OPTIONS, **options, "planner": planner}
    return prepare(RunRequest("videopro", chosen, "m", {}, lambda: questions, load=load_fake))


def test_the_program_is_the_plan_of_every_question(tmp_path: Path) -> None:
    backbone = SceneBackbone()
    method = create("adaptive", {**OPTIONS, "planner": written(tmp_path, LOOK)})
    results: list[Any] = [method.run(item(id=each), context(backbone)) for each in ("a", "b")]
    assert backbone.written == [], "no model was asked for a program"
    for result in results:
        (only,) = result.rounds
        assert (only.program, only.faults) == (LOOK.rstrip("\n"), ())
        assert result.final.letter == "D"


def test_nothing_is_refined_and_the_user_is_told(tmp_path: Path) -> None:
    spec = written(tmp_path, FAILING)
    run = prepared(spec)
    assert any("failed and unsure answers are not refined" in note for note in run.notes)
    result = run.method.run(item(), context(SceneBackbone()))
    (only,) = result.rounds
    assert only.execution.status == "failed"
    with pytest.raises(ConfigError, match="nor one program for all questions can teach"):
        SynthesisConfig(source="pocket", teacher=spec, model="pocket", output=tmp_path)


def test_the_key_has_the_text_and_not_where_it_lies(tmp_path: Path) -> None:
    here, there = written(tmp_path / "a", LOOK), written(tmp_path / "b", LOOK)
    identity = prepared(here).identity
    assert identity == prepared(there).identity
    assert identity["planner"] == "file:my.py"
    assert identity["planner_program"] == hashlib.sha256(LOOK.encode()).hexdigest()
    assert identity != prepared(written(tmp_path / "b", LOOK + "# changed\n")).identity
    assert create("videopro", OPTIONS).identity()["planner_program"] is None


def test_workers_get_the_text_that_was_checked(tmp_path: Path) -> None:
    run = prepared(written(tmp_path, LOOK))
    (tmp_path / "my.py").unlink()
    worker = create("videopro", run.options)
    assert worker.identity() == run.identity
    assert worker.run(item(), context(SceneBackbone())).rounds[0].program == LOOK.rstrip("\n")
