"""Which stages a reproduction has, with which settings they run, and what they need of the machine."""

import hashlib
import json
import re
import shutil
import string
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from huggingface_hub import constants

from tests.support.hub import connected, running_hub
from videopro.benchmarks import MANIFESTS, Repository, manifest
from videopro.benchmarks.hub import Files
from videopro.cli import COMMANDS, CONFIGS
from videopro.commands.doctor import Finding
from videopro.commands.reproduce import checks, hub
from videopro.commands.reproduce.checks import examine
from videopro.commands.reproduce.command import COMMAND, main, selected
from videopro.commands.reproduce.estimates import RATES, Estimate, Measured, Work, estimate, plan_of_synthesis
from videopro.commands.reproduce.order import stages_of
from videopro.commands.reproduce.parts import Part, Size
from videopro.commands.reproduce.pilot import pilot_of, read_pilot, show_pilot
from videopro.commands.reproduce.road import Road
from videopro.commands.reproduce.stages import Stage
from videopro.data_synthesis.rates import ASSUMED
from videopro.errors import ConfigError
from videopro.modules.models import transcription

TRAINED = ["sft", "grpo"]
LENGTHS = ["infer-lengths-native", "infer-lengths-videopro"]
RUNS = ["infer-native", "infer-videopro", "infer-sft", *LENGTHS, "infer-program"]
BENCHMARKS = ("cg_bench", "lvbench", "videomme", "longvideobench", "mlvu")
DOWNLOADS = [f"download-{name}" for name in (*BENCHMARKS, "models")]


def road(tmp_path: Path, config: str = "paper", gpus: int = 8, **changes: Any) -> Road:
    """The road of a shipped config on a machine with so many GPUs."""
    given = COMMAND.parse(["--config", config, "--output", str(tmp_path / "out")])
    return Road(replace(given, gpus=None, **changes), [str(number) for number in range(gpus)])


def names(stages: list[Stage]) -> list[str]:
    return [stage.name for stage in stages]


def by_name(road: Road) -> dict[str, Stage]:
    return {stage.name: stage for stage in stages_of(road)}


def test_the_paper_is_walked_from_its_files_to_its_tables(tmp_path: Path) -> None:
    assert names(stages_of(road(tmp_path))) == [
        *DOWNLOADS,
        *("check", "transcribe", "index", "synthesize"),
        *TRAINED,
        *RUNS,
        "report",
    ]


def test_a_run_has_the_papers_protocol_frames_and_planner(tmp_path: Path) -> None:
    walked = road(tmp_path)
    stage = by_name(walked)["infer-videopro"]
    benchmarks = [command.settings["benchmark"] for command in stage.commands if command.settings]
    assert benchmarks == ["lvbench", "videomme", "longvideobench", "mlvu"]
    assert stage.commands[1].settings == {
        "benchmark": "videomme",
        "split": "long",
        "protocol": "videopro",
        "root": "data/videomme",
        "model": "Qwen/Qwen3-VL-8B-Instruct",
        "method": "videopro",
        "backbone": {"dtype": "bf16", "frames": 64, "adapter": str(tmp_path / "out/grpo")},
        "options": {"preset": "paper", "refine_below": 0.9},
        "output": str(tmp_path / "out/runs/videopro/videomme"),
    }
    # Table 4 compares with the planner after SFT, on two of the benchmarks.
    sft = [command.settings or {} for command in by_name(walked)["infer-sft"].commands]
    assert [settings["benchmark"] for settings in sft] == ["lvbench", "videomme"]
    assert sft[0]["backbone"]["adapter"] == str(tmp_path / "out/sft")


def test_figure_5_has_all_lengths_of_video_mme(tmp_path: Path) -> None:
    """The paper's figure has three bins of Video-MME, whose long group alone is in its tables."""
    stages = by_name(road(tmp_path))
    asked = [command.settings or {} for command in stages["infer-lengths-videopro"].commands]
    assert [(each["benchmark"], each["split"]) for each in asked] == [
        ("videomme", s) for s in ("short", "medium")
    ]
    assert {each["root"] for each in asked} == {"data/videomme"}
    report = str(stages["report"].commands[0])
    runs = tmp_path / "out/runs"
    assert f"--lengths {runs}/lengths-native 'SFT + GRPO={runs}/lengths-videopro' " in report
    assert not set(LENGTHS) & set(by_name(road(tmp_path, tables=("1", "2"))))


def test_what_is_asked_about_is_prepared(tmp_path: Path) -> None:
    (command,) = by_name(road(tmp_path))["index"].commands
    files = command.arguments[
        command.arguments.index("--asked-by") + 1 : command.arguments.index("--skip-unreadable")
    ]
    asked = [Path(file).stem for file in files]
    assert asked[0] == "synthesize"
    assert {name.rpartition("-")[2] for name in asked[1:]} == {*BENCHMARKS[1:], "short", "medium"}
    assert len(asked) == 7, "one for each benchmark"


def test_training_reads_what_the_stages_before_it_wrote(tmp_path: Path) -> None:
    stages = by_name(road(tmp_path))
    sft, grpo = (stages[name].commands[0].settings or {} for name in TRAINED)
    assert sft["train_data"] == str(tmp_path / "out/synthesis/sft.jsonl")
    assert sft["lora_r"] == 64  # of configs/sft/qwen3vl_8b.yaml
    assert grpo["train_data"] == str(tmp_path / "out/synthesis/grpo.jsonl")
    assert (grpo["adapter"], grpo["modules"]) == (str(tmp_path / "out/sft"), {"preset": "paper"})


@pytest.mark.parametrize(
    ("changes", "trained"),
    [
        ({"sft_data": "release.jsonl"}, ["synthesize", "sft", "grpo"]),
        ({"sft_data": "release.jsonl", "grpo_data": "prompts.jsonl"}, ["sft", "grpo"]),
        ({"sft_data": "release.jsonl", "grpo": "none"}, ["sft"]),
        ({"sft_adapter": "user/adapter", "grpo_prompts": "planner"}, ["prompts", "grpo"]),
        ({"grpo_adapter": "user/adapter"}, []),
        ({"synthesis": "none"}, ["synthesize", "rejection", "sft", "grpo"]),
        ({"merge": True, "grpo": "none"}, ["synthesize", "sft", "merge"]),
    ],
)
def test_it_starts_from_what_others_made(tmp_path: Path, changes: dict[str, Any], trained: list[str]) -> None:
    files = ["download", "check", "transcribe", "index"]
    found = names(stages_of(road(tmp_path, **changes)))
    made = [name for name in found if not name.startswith(("infer", "report", *files))]
    assert made == trained


def test_an_adapter_from_elsewhere_answers_and_needs_no_run_of_sft(tmp_path: Path) -> None:
    stages = by_name(road(tmp_path, grpo_adapter="user/adapter"))
    settings = stages["infer-videopro"].commands[0].settings or {}
    assert settings["backbone"]["adapter"] == "user/adapter"
    # Nothing is known of its SFT: Table 4 has one row.
    assert "infer-sft" not in stages


def test_each_gpu_has_its_share(tmp_path: Path) -> None:
    stages = by_name(road(tmp_path, gpus=2))
    for name in ("transcribe", "index", "synthesize"):
        (command,) = stages[name].commands
        assert command.gpus == ("0", "1")
    for name, program in (("sft", "sft"), ("infer-native", "infer")):
        (launched,) = {str(command).partition(" --config ")[0] for command in stages[name].commands}
        assert launched == (
            f"accelerate launch --config_file {CONFIGS / 'accelerate' / 'multi_gpu.yaml'} --num_processes 2 "
            f"--main_process_port 0 -m videopro {program}"
        )
    # One process that answers needs no launcher.
    (command, *_) = by_name(road(tmp_path, gpus=1))["infer-native"].commands
    assert str(command).startswith("videopro infer --config ")
    assert command.argv[:5] == [sys.executable, "-m", "videopro", "infer", "--config"]
    (launched, *_) = stages["sft"].commands
    assert launched.argv[:4] == [sys.executable, "-m", "accelerate.commands.accelerate_cli", "launch"]


def test_stages_can_be_chosen(tmp_path: Path) -> None:
    walked = road(tmp_path)
    stages = stages_of(walked)
    assert names(selected(stages, replace(walked.config, only=("sft",)))) == ["sft"]
    left = selected(stages, replace(walked.config, skip=("download", "check", "infer", "report")))
    assert names(left) == ["transcribe", "index", "synthesize", "sft", "grpo"]
    with pytest.raises(ConfigError, match="leave no stage"):
        selected(stages, replace(walked.config, only=("merge",)))


def takes(walked: Road, plan: Any = None, measured: Measured | None = None) -> dict[str, Estimate]:
    """What each stage is expected to take."""
    work = Work(walked, plan, measured or Measured())
    return {stage.name: estimate(work, stage) for stage in stages_of(walked)}


def hours(span: tuple[float, float, float] | None) -> list[float]:
    assert span is not None
    return [round(seconds / 3600, 2) for seconds in span]


def test_estimates_rest_on_what_was_measured_or_published(tmp_path: Path) -> None:
    found = takes(road(tmp_path, gpus=1))
    # 10,000 prompts x 8 replies: 7.02 to 12.33 hours to write them, which are plans, and to train
    # (docs/results/estimates.md). Of a program's 8.2 s (Table 2), its plan takes a native answer's 2.3 s at
    # least, and all at most. So running it takes 0 to 5.9 s, 2.95 in the middle, and twice 5.9 on a slower
    # machine.
    run = [80_000 * seconds / 3600 for seconds in (0, (8.2 - 2.3) / 2, 2 * (8.2 - 2.3))]
    assert hours(found["grpo"].seconds) == pytest.approx(
        [7.02 + run[0], (7.02 + 12.33) / 2 + run[1], 12.33 + run[2]], abs=0.2
    )
    assert found["grpo"].basis == "assumed", "as much of it as the runs of programs"
    # 5,000 rows at 0.42 to 0.84 s.
    assert hours(found["sft"].seconds) == [0.58, 0.58, 1.17]
    # 900 + 1,549 questions of 8.2 s, half and twice that.
    assert hours(found["infer-program"].seconds) == [2.79, 5.58, 11.16]
    assert (found["infer-program"].works_on, found["infer-program"].basis) == ("2,449 questions", "elsewhere")
    # Eight GPUs take an eighth.
    eight = takes(road(tmp_path))
    assert hours(eight["infer-program"].seconds)[1] == round(2_449 * 8.2 / 3600 / 8, 2)
    assert (eight["transcribe"].basis, eight["index"].basis) == ("assumed", "elsewhere")
    # Steps that are limited: 100 of 8 replies on each of 8 GPUs, accumulated twice.
    few = road(tmp_path, grpo_settings={"max_steps": 100, "gradient_accumulation_steps": 2})
    assert takes(few)["grpo"].works_on == "12,800 replies"
    # LVBench alone: 103 films of 4,101 s on average (its paper), at rates.yaml's seconds an hour.
    rows = tmp_path / "rows.jsonl"
    rows.write_text("{}\n")
    lvbench = takes(road(tmp_path, gpus=1, benchmarks=("lvbench",), sft_data=str(rows), grpo_data=str(rows)))
    film = 103 * 4_101 / 3600
    for stage, rates in (("transcribe", (18, 60, 120)), ("index", (6.2, 87, 174))):
        expected = [film * rate / 3600 for rate in rates]
        assert hours(lvbench[stage].seconds) == pytest.approx(expected, rel=0.01, abs=0.01), stage
    assert {each.seconds for each in takes(road(tmp_path, gpus=0)).values()} == {None}


def test_estimates_count_rows_and_a_share_of_the_questions(tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text("{}\n{}\n\n{}\n")
    walked = road(tmp_path, limit=0.1, sft_data=str(rows), benchmarks=("lvbench",))
    found = takes(walked)
    assert found["sft"].works_on == "3 rows"
    assert found["infer-native"].works_on == "155 questions"
    # 11 of LVBench's 103 videos, of 118 h in all; and CG-Bench for GRPO.
    (lvbench,) = walked.tested
    assert walked.size(lvbench).asked(0.1) == (155, pytest.approx(walked.size(lvbench).hours * 11 / 103))


def test_a_pilot_takes_the_place_of_assumptions(tmp_path: Path) -> None:
    """A stage of two commands: 10 s of starting and 2 s for each of 5 questions, give or take a quarter, are
    10 + 2 x 1,549 for LVBench's, and 10 + 2 x 900 for Video-MME's."""
    took = {
        "seconds": 20.0,
        "working": 10.0,
        "spread": 0.25,
        "cpu_seconds": 1.0,
        "memory": 1.0,
        "gpu_memory": 0.0,
    }
    measured = Measured(
        20,
        {
            "infer-program": {"work": [5, 5], "took": [took, took]},
            "synthesize": {
                "work": [20],
                "took": [took],
                "rows": {"sft": 10, "grpo": 40},
                "tokens": [3_000, 1_000],
                "cost": 0.5,
            },
        },
    )
    plan = {
        "questions": 9_000,
        "videos": 1_200,
        "sides": {"sft": {"questions": 4_000}, "grpo": {"questions": 5_000}},
        "rows": {"sft": {"rows": 1, "target": 5_000}, "grpo": {"rows": 1, "target": 9_500}},
        "teacher": {"requests": 30_000, "tokens in": 1, "tokens out": 1, "cost": 1.0},
    }
    found = takes(road(tmp_path, gpus=0), plan, measured)
    # 20 questions took 4,000 tokens and half a dollar: 9,000 take 450 times as much.
    asks = "9,000 questions, 30,000 requests and 1.8 million teacher tokens"
    assert (found["synthesize"].works_on, found["synthesize"].dollars) == (asks, 225.0)
    assert found["infer-program"].seconds == (20 + 4_898 * 0.75, 20 + 4_898, 20 + 4_898 * 1.25)
    assert found["infer-program"].basis == "here"
    # 4,000 questions give a row for SFT each two, and 5,000 two prompts each, of which 9,500 are kept.
    assert (found["sft"].works_on, found["grpo"].works_on) == ("2,000 rows", "76,000 replies")
    assert found["infer-native"].seconds is None


def record_pilot(walked: Road, rows: int, cached: float = 0.0, **measured: dict[str, Any]) -> None:
    """What a pilot of so many rows recorded of these stages: 30 s, of which 10 were work, for 5 questions."""
    keys = {each.name: each.key for each in stages_of(pilot_of(walked, rows))}
    took = {
        "seconds": 30.0,
        "working": 10.0,
        "spread": 0.5,
        "cpu_seconds": 1.0,
        "memory": 1.0,
        "gpu_memory": 0.0,
    }
    stages = {
        name: {"commands": keys[name], "work": [5, 5], "took": [took, took], **row}
        for name, row in measured.items()
    }
    path = walked.output / "pilot/pilot.json"
    path.parent.mkdir(parents=True)
    about = {"rows": rows, "cached": cached, "gpus": walked.gpus, "processes": walked.processes}
    path.write_text(json.dumps({**about, "stages": stages}))


def test_a_plan_rests_on_the_pilot_that_there_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pilot of 8 rows, read by a plan whose own would have 20: 20 s of starting twice, and 2 s for each of
    LVBench's 1,549 and Video-MME's 900 questions."""
    monkeypatch.setattr(hub.HfApi, "auth_check", lambda *_, **__: None)
    monkeypatch.setenv("COLUMNS", "200")
    record_pilot(road(tmp_path, data=tmp_path, gpus=0), 8, **{"infer-program": {}})
    flags = ["--config", "paper", "--gpus", "0", "--data", str(tmp_path), "--output", str(tmp_path / "out")]
    main([*flags, "--plan"])
    said = capsys.readouterr().out
    (line,) = [line for line in said.splitlines() if "infer-program" in line and "questions" in line]
    assert re.search(r"82 min \(41 min to 2\.1 h\) +│ here", line)
    assert "by a pilot of 8 rows" in said
    # Of other settings it says nothing.
    main([*flags, "--plan", "--infer", "in_flight=2"])
    assert "by a pilot" not in capsys.readouterr().out


def test_a_pilot_on_other_gpus_says_nothing(tmp_path: Path) -> None:
    walked = road(tmp_path, gpus=1)
    record_pilot(walked, 8, **{"infer-program": {}})
    assert set(read_pilot(walked).stages) == {"infer-program"}
    assert read_pilot(road(tmp_path, gpus=8)) == Measured()
    assert read_pilot(road(tmp_path, gpus=1, processes=2)) == Measured()


def test_a_pilot_says_what_it_measured(capsys: pytest.CaptureFixture[str]) -> None:
    took = [
        {"seconds": 200.0, "memory": 3e9, "gpu_memory": 0.0},
        {"seconds": 100.0, "memory": 2e9, "gpu_memory": 40e9},
    ]
    stages = {
        "synthesize": {"work": [20.0, None], "took": took, "bytes": 7e6, "tokens": [3_000, 1_000]},
        "report": {"work": [1.0], "took": took[:1], "bytes": 1e6},
    }
    show_pilot(Measured(20, stages, 5e8))
    rows = [" ".join(line.replace("│", " ").split()) for line in capsys.readouterr().out.splitlines()]
    assert "synthesize 20 questions 5 min 3.0 GB 40.0 GB 7 MB 4,000" in rows
    assert "report 1 3 min 3.0 GB 0 MB 1 MB -" in rows
    assert "20 rows; the cache grows by 500 MB for each hour of video." in rows


def test_a_pilot_has_few_rows_of_everything(tmp_path: Path) -> None:
    few = pilot_of(road(tmp_path), rows=20)
    stages = by_name(few)
    assert {
        command.settings["limit"] for command in stages["infer-videopro"].commands if command.settings
    } == {5}
    synthesis = stages["synthesize"].commands[0].settings or {}
    assert (synthesis["limit"], synthesis["sft_share"], synthesis["output"]) == (
        20, None, str(tmp_path / "out/pilot/synthesis")
    )  # fmt: skip
    for name in TRAINED:
        settings = stages[name].commands[0].settings or {}
        whole = by_name(road(tmp_path))[name].commands[0].settings or {}
        assert settings["max_steps"] == 4
        batch = "per_device_train_batch_size"
        assert settings[batch] == whole[batch]


@pytest.mark.parametrize("path", sorted((CONFIGS / "reproduce").glob("*.yaml")), ids=lambda path: path.stem)
def test_every_shipped_config_is_a_road(path: Path, tmp_path: Path) -> None:
    assert isinstance(yaml.safe_load(path.read_text()), dict)
    assert names(stages_of(road(tmp_path, path.stem, gpus=1)))[-1] == "report"


def test_prompts_of_a_planner_ask_what_a_synthesis_may_ask(tmp_path: Path) -> None:
    given = {"grpo_prompts": "planner", "sft_data": "sft.jsonl"}
    asked = road(tmp_path, gpus=1, synthesize={"limit": 40, "exclude": ["x"]}, **given)
    (command,) = by_name(asked)["prompts"].commands
    settings = dict(command.settings or {})
    expected = {"source": "cg_bench", "evaluation": "skip", "limit": 40, "exclude": ["x"]}
    expected |= {"sft_data": "sft.jsonl", "adapter": str(tmp_path / "out/sft")}
    assert settings.items() >= expected.items()
    assert "teacher" not in settings


def test_a_setting_of_a_mapping_leaves_the_others(tmp_path: Path) -> None:
    """As `videopro synthesize --config cg_bench --backbone api_body=...` does."""
    low = {"api_body": {"reasoning_effort": "low"}}
    walked = road(tmp_path, gpus=1, synthesize={"backbone": low}, infer={"backbone": {"pixels": 9}})
    stages = by_name(walked)
    synthesis = stages["synthesize"].commands[0].settings or {}
    assert synthesis["backbone"] == {"dtype": "bf16", **low}
    answers = stages["infer-native"].commands[0].settings or {}
    assert answers["backbone"] == {"dtype": "bf16", "frames": 64, "pixels": 9}


@pytest.mark.parametrize("config", ["paper", "api-teacher", "no-teacher", "miniature"])
def test_every_command_reads_the_settings_that_it_is_given(config: str, tmp_path: Path) -> None:
    teacher = (
        {} if config == "no-teacher" else {"synthesize": {"teacher": "api:narrator@http://127.0.0.1:9/v1"}}
    )
    read = set()
    for stage in stages_of(road(tmp_path, config, gpus=1, **teacher)):
        for command in stage.commands:
            # TRL's parser reads those of the trainers, and others are not ours.
            if command.name in ("hf", "python", "sft", "grpo"):
                continue
            words = list(command.arguments)
            if command.file is not None:
                command.file.parent.mkdir(parents=True, exist_ok=True)
                command.file.write_text(yaml.safe_dump(dict(command.settings or {})))
                words += ["--config", str(command.file)]
            module = import_module(COMMANDS[command.name].module)
            (module.CHECK if command.name == "benchmarks check" else module.COMMAND).parse(words)
            read.add(command.name)
    made = {"synthesize", "rejection", "prompts"} if config == "no-teacher" else {"synthesize"}
    assert read == {"benchmarks check", "transcribe", "index", "infer", "report", *made}


def named_gpus(stage: Stage) -> set[str | None]:
    """What a stage's commands have for CUDA_VISIBLE_DEVICES."""
    return {each.get("CUDA_VISIBLE_DEVICES") for command in stage.commands for each in command.environments}


def test_gpus_that_the_road_is_not_to_use_are_hidden(tmp_path: Path) -> None:
    # Of a machine with eight, this process has been given the last four.
    settings = COMMAND.parse(["--config", "one-gpu", "--output", str(tmp_path)])
    on_gpus = ("transcribe", "index", "synthesize", "sft", "grpo", *RUNS)
    stages = by_name(Road(settings, ["4", "5", "6", "7"]))
    assert {gpus for name in on_gpus for gpus in named_gpus(stages[name])} == {"4"}
    stages = by_name(Road(replace(settings, gpus=2), ["4", "5", "6", "7"]))
    assert named_gpus(stages["index"]) == {"4", "5"}
    assert [named_gpus(stages[name]) for name in ("sft", "infer-native")] == [{"4,5"}, {"4,5"}]
    stages = by_name(Road(replace(settings, gpus=0), ["4", "5", "6", "7"]))
    assert named_gpus(stages["infer-native"]) == {""}
    # All that it sees: the commands see them too, but a training in one process has one.
    stages = by_name(Road(replace(settings, gpus=None, processes=1), ["4", "5"]))
    assert [named_gpus(stages[name]) for name in ("sft", "infer-native")] == [{"4"}, {None}]


@pytest.mark.parametrize(
    ("changes", "programs"),
    [
        ({}, (4, 1)),
        # Rows of the release, or an adapter, in place of rows for SFT.
        ({"sft_data": "release.jsonl"}, (0, 1)),
        ({"sft_adapter": "user/adapter"}, (0, 1)),
        ({"grpo": "none"}, (4, 0)),
        ({"grpo_data": "prompts.jsonl"}, (4, 0)),
        ({"grpo_prompts": "planner"}, (4, 0)),
        ({"grpo": "none", "synthesize": {"grpo_programs": 2}}, (4, 2)),
    ],
)
def test_a_teacher_is_paid_for_rows_that_are_read(
    tmp_path: Path, changes: dict[str, Any], programs: tuple[int, int]
) -> None:
    (command, *_) = by_name(road(tmp_path, **changes))["synthesize"].commands
    settings = command.settings or {}
    assert (settings["programs"], settings["grpo_programs"]) == programs
    # Which videos are whose does not change: the rows in place of those not made may be of such a synthesis.
    assert settings["sft_share"] == 0.4


def test_a_backbone_that_writes_its_own_rows_is_told_of_the_modules(tmp_path: Path) -> None:
    walked = road(tmp_path, "no-teacher")
    stages = by_name(walked)
    assert (stages["synthesize"].commands[0].settings or {})["reference"] == "full"
    (rejection,) = stages["rejection"].commands
    assert (rejection.settings or {})["data"] == str(tmp_path / "out/synthesis/grpo.jsonl")
    # How much it gets right is not known before it is asked.
    found = takes(walked)
    assert (found["sft"].works_on, found["sft"].seconds) == ("what rejection leaves", None)
    assert (found["grpo"].works_on, found["grpo"].seconds) == ("what prompts leaves", None)


def test_what_is_still_to_be_downloaded_gives_no_plan_of_the_synthesis(tmp_path: Path) -> None:
    # As a download that was cut off leaves it; and CG-Bench whole, without the test sets.
    data = tmp_path / "data"
    (data / "cg_bench/.cache/huggingface").mkdir(parents=True)
    walked = road(tmp_path, data=data)
    for counted in ((), ("cg_bench",)):
        walked.sizes = {
            part: Size(9, 9, 9.0, is_counted=part.folder in counted) for part in walked.benchmarks()
        }
        assert plan_of_synthesis(walked, stages_of(walked)) is None


def test_a_plan_without_a_teacher_says_what_is_missing_below_its_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub.HfApi, "auth_check", lambda *_, **__: None)
    flags = ["--config", "api-teacher", "--data", str(tmp_path / "data"), "--output", str(tmp_path / "out")]
    assert main([*flags, "--plan"]) == 2
    captured = capsys.readouterr()
    assert "infer-videopro" in captured.out, "the table"
    assert "teacher" in captured.out
    assert "synthesize" in captured.err
    assert main([*flags, "--plan", "--synthesize", "teacher=api:m@http://127.0.0.1:9/v1"]) == 2
    assert "synthesize" not in capsys.readouterr().err


# ---- what it needs of the machine ----------------------------------------------------------------------


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without Whisper, whose hub has every model."""
    monkeypatch.setattr(transcription, "find_whisper", lambda: None)
    monkeypatch.setattr(checks, "check_needs", lambda needs: None)


def findings(walked: Road, *kinds: str) -> dict[str, Finding]:
    stages = [stage for stage in stages_of(walked) if stage.kind in kinds]
    return {found.name: found for found in examine(walked, stages)}


def test_training_alone_needs_no_files_of_benchmarks(tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text("{}\n")
    found = findings(road(tmp_path, sft_data=str(rows)), "sft")
    assert [name for name, each in found.items() if each.state == "broken"] == []
    models = [name for name, each in found.items() if each.section == "models"]
    assert models == ["model Qwen/Qwen3-VL-8B-Instruct"]
    assert found["rows for sft"].text == str(rows)
    for no_file in (tmp_path / "missing.jsonl", tmp_path):
        found = findings(road(tmp_path, sft_data=str(no_file), grpo="none"), "sft")
        assert found["rows for sft"].state == "broken"
    assert findings(road(tmp_path), "infer")["lvbench test"].state == "broken"


def test_a_machine_without_gpus_may_download_for_others(tmp_path: Path) -> None:
    settings = COMMAND.parse(["--config", "paper", "--output", str(tmp_path / "out")])
    walked = Road(settings, [])
    assert "GPUs" not in findings(walked, "download")
    asked = findings(walked, "download", "index")["GPUs"]
    assert (asked.state, asked.text) == ("broken", "0 found, but gpus is 8")


def disks(walked: Road, *kinds: str) -> dict[str, Finding]:
    return {name: each for name, each in findings(walked, *kinds).items() if name.startswith("disk")}


def test_each_disk_needs_room_for_what_comes_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIDEOPRO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=60e9))
    monkeypatch.setattr(hub, "models", lambda road: [])
    monkeypatch.setattr(checks, "models", lambda road: [])
    # One disk for all has to hold all: 28 GB of outputs and 12 of cache, on any number of GPUs.
    (alone,) = disks(road(tmp_path), "sft").values()
    assert (alone.state, "40.0 GB needed" in alone.text) == ("ok", True)
    assert "28.0 GB for outputs (assumed: 10.0 GB to 38.0 GB)" in alone.text
    monkeypatch.setattr(checks, "_device", lambda folder: hash(folder.name))
    apart = disks(road(tmp_path, data=tmp_path / "data"), *("download", "check", "sft"))
    assert {name: each.state for name, each in apart.items()} == {
        "disk": "ok",
        "disk of the cache": "ok",
        "disk of the data": "wrong",
    }
    # By the hub: CG-Bench 411 GB, LongVideoBench 161.6, Video-MME 101, MLVU 77; unpacked as much again.
    # LVBench, 58, is not packed.
    assert "1,559.3 GB needed at the peak" in apart["disk of the data"].text
    # On a CPU nothing of the size of an 8B model is written, and what others downloaded needs no room.
    (tmp_path / "out").mkdir()
    assert disks(road(tmp_path, gpus=0), "sft")["disk"].text.endswith("60.0 GB free")
    (tmp_path / "out").rmdir()
    (tmp_path / "out").write_text("")
    assert findings(road(tmp_path), "sft")["disk"].state == "broken", "below a file"


def test_the_disk_has_room_for_what_the_pilot_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SFT left one checkpoint of 6 GB, and keeps two, whatever its steps. Ten questions wrote 0.1 GB: 2,449
    write 24.5. An hour of video filled 0.1 GB of the cache: 50 hours fill 5."""
    monkeypatch.setattr(hub, "models", lambda road: [])
    monkeypatch.setattr(checks, "models", lambda road: [])
    monkeypatch.setattr(checks, "_device", lambda folder: hash(folder.name))
    monkeypatch.setattr(Work, "hours", 50.0)
    monkeypatch.setenv("VIDEOPRO_CACHE", str(tmp_path / "cache"))
    walked = road(tmp_path)
    measured = {"sft": {"bytes": 6_000_000_000}, "infer-program": {"bytes": 100_000_000}}
    record_pilot(walked, 20, cached=100_000_000, **measured)
    stages = [each for each in stages_of(walked) if each.name in measured]
    found = {each.name: each.text for each in examine(walked, stages) if each.name.startswith("disk")}
    assert "36.5 GB for outputs (by a pilot of 20 rows)" in found["disk"]
    assert "5.0 GB for cache (by a pilot of 20 rows)" in found["disk of the cache"]
    # Of an hour that it knew nothing of, it says nothing, and divides by nothing.
    path = walked.output / "pilot/pilot.json"
    empty = json.loads(path.read_text())
    empty["stages"]["infer-program"]["work"] = [0, 0]
    path.write_text(json.dumps(empty))
    found = {each.name: each.text for each in examine(walked, stages)}
    assert "12.0 GB for outputs (by a pilot of 20 rows)" in found["disk"]
    # It says nothing of the stages that it has not run.
    assert "28.0 GB for outputs (assumed: 10.0" in disks(walked, "sft", "grpo")["disk"].text


@pytest.mark.parametrize(
    ("removes", "name", "expected"),
    [
        (False, "v.tar.part.{aa..ad}", (210, 200)),
        # One piece of four.
        (True, "v.tar.part.{aa..ad}", (210, 50)),
        # It cannot be read from its middle, so its pieces stay to the end.
        (True, "v.tar.gz.part-{aa..ad}", (210, 200)),
    ],
)
def test_what_is_there_needs_no_room_again(
    removes: bool, name: str, expected: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two of four pieces, and two of four videos."""
    videos = Files(name, "videos", "listing", bytes=400)
    questions = Files("q.json", "questions", "listing", bytes=10)
    monkeypatch.setattr(Part, "repositories", [Repository("own/er", (videos, questions))])
    walked = road(tmp_path, data=tmp_path, remove_archives=removes)
    (lvbench,) = [part for part in walked.tested if part.name == "lvbench"]
    (tmp_path / "lvbench/.cache/huggingface").mkdir(parents=True)
    for piece in videos.names[:2]:
        (tmp_path / "lvbench" / piece).write_bytes(b"x" * 100)
    walked.sizes = {lvbench: Size(40, 4, 1.0, is_counted=True, found=2)}
    assert hub.room(walked, lvbench) == expected
    walked.sizes = {lvbench: Size(40, 4, 1.0, is_counted=True, found=4)}
    assert hub.room(walked, lvbench) == (0, 0)
    # Put there by hand: what is there is all of it.
    shutil.rmtree(tmp_path / "lvbench/.cache")
    walked.sizes = {lvbench: Size(40, 4, 1.0, is_counted=True, found=0)}
    assert hub.room(walked, lvbench) == (0, 50 if expected == (210, 50) else 200)


def test_all_pieces_of_what_is_asked_are_downloaded_and_nothing_else(tmp_path: Path) -> None:
    stages = by_name(road(tmp_path, benchmarks=("lvbench", "mlvu")))
    downloads = [str(command) for name in DOWNLOADS if name in stages for command in stages[name].commands]
    data = "--repo-type dataset --local-dir data"
    assert downloads[:3] == [
        f"hf download CG-Bench/CG-Bench {data}/cg_bench --include cgbench.json --include cgbench_mini.json "
        "--include subtitles.zip --include 'video_chunk_*.zip'",
        f"hf download zai-org/LVBench {data}/lvbench --include video_info.meta.jsonl --include 'videos/*'",
        f"hf download MLVU/MLVU_Test {data}/mlvu --include test_multi_choice_tasks.json "
        "--include test-ground-truth/test_mcq_gt.json --include 'MLVU_Test/test_video.tar.gz.part-*'",
    ]
    assert "hf download Qwen/Qwen3-VL-8B-Instruct" in downloads
    # EasyOCR's weights are on no hub: a machine without a network would look for them in vain.
    assert downloads[-1].startswith("python -c ")
    assert 'load_ocr("easyocr:en"' in downloads[-1]


def test_access_to_gated_benchmarks_is_checked_before_the_download(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    walked = road(tmp_path, benchmarks=("longvideobench", "videomme"))
    with running_hub() as server, connected(server, monkeypatch, tmp_path / "cache"):
        for name in ("CG-Bench/CG-Bench", "longvideobench/LongVideoBench", "lmms-lab/Video-MME"):
            server.add("dataset", name, {})
        server.gated.add("longvideobench/LongVideoBench")
        found = findings(walked, "download")
        assert found["CG-Bench/CG-Bench"].state == "ok"
        refused = found["longvideobench/LongVideoBench"]
        assert (refused.state, server.url in refused.text) == ("broken", True)
        assert "hf auth login" in refused.text
        # Anyone may download this one, and what is there is not asked for.
        assert "lmms-lab/Video-MME" not in found
        assert "longvideobench/LongVideoBench" not in findings(walked, "infer")
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    unknown = findings(walked, "download")["CG-Bench/CG-Bench"]
    assert (unknown.state, "could not be checked" in unknown.text) == ("missing", True)


LISTING = {
    "README.md": 10_100,
    "lvb_val.json": 1_310_000,
    "lvb_test_wo_gt.json": 4_890_000,
    "subtitles.tar": 117_000_000,
    **{f"videos.tar.part.a{letter}": 5_242_880_000 for letter in string.ascii_lowercase},
    **{f"videos.tar.part.b{letter}": 5_242_880_000 for letter in "abcd"},
    "videos.tar.part.be": 4_280_000_000,
}
"""LongVideoBench as the hub lists a copy of it."""


@pytest.mark.parametrize(
    ("changed", "gate", "differs"),
    [
        ({}, "auto", {}),
        ({}, "manual", {"name": "the hub calls it others/LongVideoBench"}),
        (
            {"videos.tar.part.bf": 5_242_880_000},
            "auto",
            {"videos.tar.part.{aa..be}": "new: videos.tar.part.bf"},
        ),
        ({"videos.tar.part.ac": None}, "auto", {"videos.tar.part.{aa..be}": "not there: videos.tar.part.ac"}),
        ({"subtitles.tar": 217_000_000}, "auto", {"subtitles.tar": "1 files, 217 MB; not 117 MB"}),
        ({"lvb_val.json": None}, "auto", {"lvb_val.json": "0 files"}),
        ({}, False, {"gate": "open to all"}),
    ],
)
def test_the_manifest_is_compared_with_the_hub(
    changed: dict[str, int | None],
    gate: str | bool,
    differs: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    flags = ["--config", "paper", "--benchmarks", "longvideobench"]
    flags += [
        "--sft-adapter",
        "own/er",
        "--grpo",
        "none",
        "--output",
        str(tmp_path / "out"),
        "--check-manifest",
    ]
    monkeypatch.setattr(hub, "models", lambda road: [])
    monkeypatch.setenv("COLUMNS", "300")
    with running_hub() as server, connected(server, monkeypatch, tmp_path / "cache"):
        listed = server.add("dataset", "longvideobench/LongVideoBench", {})
        listed.gate = gate
        listed.renamed = "others/LongVideoBench" if "name" in differs else ""
        listed.sizes = {name: size for name, size in (LISTING | changed).items() if size is not None}
        assert main([*flags, "--check-manifest"]) == (2 if differs else 0)
    captured = capsys.readouterr()
    for fact, text in differs.items():
        (line,) = [line for line in captured.out.splitlines() if fact in line]
        assert text in line
    assert f"{len(differs)} facts differ from the hub" in captured.err or not differs
    assert not (tmp_path / "out").exists()


def test_a_revision_and_a_checksum_are_compared_with_the_hub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = b"weights" * 2_000_000
    with running_hub() as server, connected(server, monkeypatch, tmp_path / "cache"):
        listed = server.add("model", "own/er", {"model.bin": content})

        def states(sha256: str, revision: str) -> dict[str, str]:
            files = Files("model.bin", "weights", "listing", sha256=sha256)
            found = hub.compared(Repository("own/er", (files,), "model", revision=revision))
            return {each.name: each.state for each in found}

        right = states(hashlib.sha256(content).hexdigest(), listed.head)
        assert set(right.values()) == {"ok"}
        older = listed.head
        listed.commit({"model.bin": content + b"!"})
        wrong = states(hashlib.sha256(content).hexdigest(), older)
        assert wrong == {"name": "ok", "gate": "ok", "revision": "wrong", "model.bin": "ok"}
        assert states(hashlib.sha256(content).hexdigest(), "")["model.bin"] == "wrong"


def test_a_model_of_unknown_size_is_named(tmp_path: Path) -> None:
    found = findings(road(tmp_path, model="Qwen/Qwen3-VL-32B-Instruct"), "download")
    assert "its size is not known" in found["Qwen/Qwen3-VL-32B-Instruct"].text
    assert "Qwen/Qwen3-VL-8B-Instruct" not in findings(road(tmp_path), "download")


def test_pieces_of_an_unknown_number_are_counted_where_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four zips of 100 bytes: with --remove-archives each makes room for the next."""
    videos = Files("videos_*.zip", "videos", "listing", bytes=400)
    monkeypatch.setattr(Part, "repositories", [Repository("own/er", (videos,))])
    walked = road(tmp_path, data=tmp_path, remove_archives=True)
    (lvbench,) = [part for part in walked.tested if part.name == "lvbench"]
    walked.sizes = {lvbench: Size(40, 4, 1.0, is_counted=True)}
    (tmp_path / "lvbench/.cache/huggingface").mkdir(parents=True)
    assert hub.room(walked, lvbench) == (400, 400), "before the download it is one, or as many as it may be"
    for number in range(4):
        (tmp_path / f"lvbench/videos_{number}.zip").write_bytes(b"x" * 100)
    assert hub.room(walked, lvbench) == (0, 100)


def test_a_program_costs_the_same_in_synthesis_as_elsewhere() -> None:
    assert (ASSUMED.native_seconds, ASSUMED.program_seconds) == (
        RATES["native"]["seconds"][1],
        RATES["run"]["seconds"][1],
    )


def test_each_fact_of_the_hub_has_a_source_and_a_day() -> None:
    found = {path.stem: manifest(path.stem) for path in MANIFESTS.glob("*.yaml")}
    assert set(BENCHMARKS) <= set(found)
    for name, entry in found.items():
        facts = [fact for each in entry.repositories for fact in (*each.files, each.gate) if fact is not None]
        facts += entry.sizes.values()
        assert facts, name
        assert {fact.source for fact in facts} == set(entry.sources), name


def test_without_transcripts_nothing_is_transcribed(tmp_path: Path) -> None:
    stages = by_name(road(tmp_path, modules={"speech": "none"}))
    assert "transcribe" not in stages
    assert not [command for command in stages["download-models"].commands if "whisper" in str(command)]


def test_a_test_set_without_its_answers_is_told_before_it_is_asked(tmp_path: Path) -> None:
    # MLVU's questions and their answers are files of their own.
    mlvu = tmp_path / "data/mlvu"
    mlvu.mkdir(parents=True)
    row = {"question_id": "Q1", "question_type": "count", "video": "a.mp4", "question": "How many?"}
    questions = json.dumps([{**row, "candidates": ["1", "2", "3", "4", "5", "6"]}])
    (mlvu / "test_multi_choice_tasks.json").write_text(questions)
    walked = road(tmp_path, data=tmp_path / "data", benchmarks=("mlvu",))
    stages = [stage for stage in stages_of(walked) if stage.kind == "infer"]

    def finding() -> Finding:
        walked.sizes.clear()
        return next(each for each in examine(walked, stages) if each.name.startswith("mlvu"))

    assert (finding().state, "1 of them without an answer" in finding().text) == ("wrong", True)
    (mlvu / "test_mcq_gt.json").write_text(json.dumps([{"question_id": "Q1", "answer": "3"}]))
    assert finding().state == "ok"


def test_files_that_cannot_be_read_are_missing_unless_their_download_goes_on(tmp_path: Path) -> None:
    for folder in ("cg_bench/.cache/huggingface", "lvbench"):
        (tmp_path / "data" / folder).mkdir(parents=True)
    found = findings(road(tmp_path, data=tmp_path / "data"), "download", "check")
    states = [found[name].state for name in ("cg_bench full", "lvbench test")]
    assert states == ["missing", "broken"]


def test_files_that_were_put_there_by_hand_are_not_downloaded(tmp_path: Path) -> None:
    def downloads() -> bool:
        return "download-cg_bench" in by_name(road(tmp_path, data=tmp_path / "data"))

    assert downloads()
    (tmp_path / "data/cg_bench").mkdir(parents=True)
    assert not downloads()
    # As the hub's client leaves it, also when it was stopped.
    (tmp_path / "data/cg_bench/.cache/huggingface").mkdir(parents=True)
    assert downloads()
    walked = road(tmp_path)
    assert names(selected(stages_of(walked), walked.config))[0] == "download-cg_bench"
    fetched = by_name(road(tmp_path, data=tmp_path / "data"))["download-cg_bench"].fetches
    assert fetched == (tmp_path / "data/cg_bench",)
