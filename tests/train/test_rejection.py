"""Rejection sampling: the right programs of a policy, each once a prompt, as rows that train/sft.py reads."""

import itertools
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.support import sft_world as world
from tests.support.reward_world import checked, make, row
from tests.support.scenes import BROKEN, LOCAL, NATIVE, QUESTION, SceneBackbone, video
from videopro.backbones import PlannerRecord, folder_fingerprint
from videopro.backbones.base import GenerateRequest
from videopro.errors import ConfigError
from videopro.methods.planners import answerer
from videopro.modules import library
from videopro.modules.calls import CallCache
from videopro.pocket import model_dir
from videopro.train import rejection
from videopro.train.finetune import read_rows
from videopro.train.rewards import ProgramRewards
from videopro.train.settings import REJECTION

WORDED = LOCAL.replace("A plan.", "Another plan.").replace("    intervals", "    # at red\n    intervals")
GUESS = LOCAL.replace("return query_mc", "return 'B' or query_mc")
WRITES = {"first": [LOCAL, NATIVE, WORDED, BROKEN], "second": [NATIVE, BROKEN, "prose", GUESS]}
"""B is right: of the first prompt's replies the first and the third, which are the same program."""


def prompt(name: str, **changes: Any) -> dict[str, Any]:
    return {**row(id=name), "question_id": name, "prompt": f"Plan {name}.", **changes}


class Policy(SceneBackbone):
    """Writes by prompt, in turn."""

    def __init__(self) -> None:
        super().__init__(self.in_turn, before=self.count)
        self.asked_for: list[str] = []
        self.fail_at: int | None = None
        self.drawn: list[int] = []
        self.meet: Callable[[], object] = lambda: None

    def count(self, requests: Sequence[Any]) -> None:
        if isinstance(requests[0], GenerateRequest):
            if not self.drawn:
                self.meet()
            self.drawn.append(len(requests))

    def in_turn(self, request: GenerateRequest) -> str:
        name = request.text.split()[1].strip(".")
        if self.fail_at is not None and len(self.asked_for) >= self.fail_at:
            raise KeyboardInterrupt
        self.asked_for.append(name)
        return WRITES[name][(self.asked_for.count(name) - 1) % 4]


@pytest.fixture
def policy(monkeypatch: pytest.MonkeyPatch) -> Policy:
    made = Policy()
    monkeypatch.setattr(rejection, "_load", lambda config: (made, make(made)))
    return made


def words(folder: Path, *more: str) -> list[str]:
    data = folder / "grpo.jsonl"
    if not data.exists():
        world.write(data, [prompt("first"), prompt("second")])
    given = {"model": "scenes", "adapter": "a", "data": data, "output": folder / "own.jsonl", "samples": 4}
    return [word for name, value in given.items() for word in (f"--{name}", str(value))] + list(more)


@pytest.mark.parametrize(("batch_size", "at_once"), [(7, [4, 4]), (8, [8])])
def test_right_programs_become_rows_once_each(
    policy: Policy, tmp_path: Path, capsys: pytest.CaptureFixture[str], batch_size: int, at_once: list[int]
) -> None:
    assert rejection.main(words(tmp_path, "--batch-size", str(batch_size))) == 0
    # Prompts are sampled whole, and those of a video together as far as the batch goes.
    assert policy.drawn == at_once
    assert "1 programs, of 2 correct among 8; 1 of 2 prompts have one" in capsys.readouterr().out
    (kept,) = read_rows(tmp_path / "own.jsonl").rows
    assert (kept.reply, kept.prompt, kept.kind) == (LOCAL, "Plan first.", "program")
    assert kept.video == video().path
    assert all(adapted for _, _, adapted in policy.written)
    assert not any(adapted for _, adapted in policy.asked)
    # Each reply draws with a seed of its own.
    assert len({request.seed for request, _, _ in policy.written}) == 8


def test_a_stopped_command_resumes(policy: Policy, tmp_path: Path) -> None:
    policy.fail_at = 6
    assert rejection.main(words(tmp_path, "--batch-size", "4")) == 130
    assert not (tmp_path / "own.jsonl").exists()
    with (tmp_path / "own.jsonl.samples").open("a") as file:
        file.write('{"id": "sec')  # Killed while it wrote.
    policy.fail_at = None
    policy.asked_for.clear()
    assert rejection.main(words(tmp_path)) == 0
    # Of the second prompt only: the first was sampled.
    assert policy.asked_for == ["second"] * 4
    assert [row.reply for row in read_rows(tmp_path / "own.jsonl").rows] == [LOCAL]
    policy.asked_for.clear()
    assert rejection.main(words(tmp_path)) == 0
    assert policy.asked_for == []


def test_a_larger_limit_adds_prompts(policy: Policy, tmp_path: Path) -> None:
    assert rejection.main(words(tmp_path, "--limit", "1")) == 0
    assert policy.asked_for == ["first"] * 4
    assert rejection.main(words(tmp_path, "--limit", "0.9")) == 0
    assert policy.asked_for == ["first"] * 4 + ["second"] * 4


def test_processes_share_the_prompts_by_video(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two are at it at the same time, as accelerate launch or a second command has them; each is a thread
    here, since the kernel's locks keep open files apart."""
    videos = [tmp_path / f"{name}.mp4" for name in "abc"]
    for path in videos:
        path.symlink_to(video().path)
    rows = [
        prompt(f"{number}", prompt=f"Plan {name}.", video=str(path))
        for number, (name, path) in enumerate(itertools.product(WRITES, videos))
    ]
    world.write(tmp_path / "grpo.jsonl", rows)
    both_sample, policies = threading.Barrier(2, timeout=60), list[Policy]()

    def load(config: rejection.RejectionConfig) -> tuple[Policy, ProgramRewards]:
        own = Policy()
        own.meet = both_sample.wait
        policies.append(own)
        return own, make(own)

    monkeypatch.setattr(rejection, "_load", load)
    with ThreadPoolExecutor(2) as threads:
        config = REJECTION.parse(words(tmp_path))
        summaries = set(threads.map(rejection.run, (config, config)))
    assert sorted(policies[0].asked_for + policies[1].asked_for) == ["first"] * 12 + ["second"] * 12
    (said,) = summaries
    assert "3 programs, of 6 correct among 24; 3 of 6 prompts have one" in said
    shared = (tmp_path / "own.jsonl").read_bytes()
    # Alone it makes the same file; ranks above 0 leave it to the first, which waits for them.
    both_sample = threading.Barrier(1)
    for name in ("own.jsonl", "own.jsonl.samples"):
        (tmp_path / name).unlink()
    monkeypatch.setenv("RANK", "1")
    assert rejection.main(words(tmp_path)) == 0
    assert not (tmp_path / "own.jsonl").exists()
    assert capsys.readouterr().out == ""
    monkeypatch.setenv("RANK", "0")
    assert rejection.main(words(tmp_path)) == 0
    assert (tmp_path / "own.jsonl").read_bytes() == shared
    assert len(policies) == 3


def test_other_settings_and_no_right_program_are_refused(
    policy: Policy, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert rejection.main(words(tmp_path)) == 0
    assert rejection.main(words(tmp_path, "--seed", "1")) == 2
    assert "(seed)" in capsys.readouterr().err
    hard = world.write(tmp_path / "hard.jsonl", [prompt("second"), prompt("first", video="/nowhere.mp4")])
    more = ("--data", str(hard), "--output", str(tmp_path / "none.jsonl"))
    assert rejection.main(words(tmp_path, *more)) == 2
    said = capsys.readouterr().err
    assert "nowhere.mp4" in said
    assert "no correct program for any of 2 prompts" in said


def test_equal_programs_count_once(tmp_path: Path) -> None:
    assert [reply for reply, _ in rejection.distinct([LOCAL, WORDED, NATIVE])] == [LOCAL, NATIVE]
    path = world.write(tmp_path / "grpo.jsonl", [prompt("first", prompt_video=False)])
    (text,) = rejection.as_rows(rejection.read_grpo_rows(path, ["plan"]).rows[0], [NATIVE])
    assert text["messages"][0]["content"] == "Plan first."
    assert "videos" not in text
    assert (text["kind"], text["id"]) == ("native", "first/own-0")


def test_prompts_that_do_not_begin_with_their_video_are_left_out(
    policy: Policy, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = f"Question: {QUESTION.text}\nChoices:\n{QUESTION.lettered_choices()}"
    chat = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": f"<video>{asked}"}]
    with_system = {"messages": chat, "videos": [str(video().path)], "solution": "B"}
    world.write(tmp_path / "mixed.jsonl", [prompt("first"), with_system])
    assert rejection.main(words(tmp_path, "--data", str(tmp_path / "mixed.jsonl"))) == 0
    assert policy.asked_for == ["first"] * 4
    assert "1 rows skipped" in capsys.readouterr().err
    world.write(tmp_path / "system.jsonl", [with_system])
    assert rejection.main(words(tmp_path, "--data", str(tmp_path / "system.jsonl"))) == 2


def test_each_process_of_a_launch_takes_its_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []
    gpus = {"is_available": lambda: True, "device_count": lambda: 4, "set_device": taken.append}
    for name, answer in gpus.items():
        monkeypatch.setattr(torch.cuda, name, answer)

    def load(config: Any) -> Any:
        raise ConfigError(f"on GPU {taken[-1]}")

    monkeypatch.setattr(rejection, "load_backbone", load)
    config = rejection.RejectionConfig("pocket", tmp_path / "grpo.jsonl", tmp_path / "own.jsonl")
    for variables, gpu in (({}, 0), ({"LOCAL_RANK": "3"}, 3)):
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        with pytest.raises(ConfigError, match=f"on GPU {gpu}"):
            rejection._load(config)


def test_the_base_of_a_merged_policy_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an adapter or an answerer: the merged checkpoint says what answers."""
    policy, base = Policy(), SceneBackbone()
    monkeypatch.setattr(rejection, "load_backbone", lambda config: policy)
    monkeypatch.setattr(answerer, "load_backbone", lambda config: base)
    monkeypatch.setattr(library, "_cache", CallCache())
    none = dict.fromkeys(("encoder", "text_encoder", "ocr", "detector", "tracker"), "none")
    files = tmp_path / "grpo.jsonl", tmp_path / "own.jsonl"
    config = rejection.RejectionConfig("pocket", *files, modules=none)
    with pytest.raises(ConfigError, match="set adapter or answerer"):
        rejection._load(config)
    policy.planner = PlannerRecord("pocket", folder_fingerprint(model_dir()))
    _, rewards = rejection._load(config)
    with rewards:
        rewards.run([checked()], [NATIVE])
    assert (len(base.asked), policy.asked) == (1, [])
