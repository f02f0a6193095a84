"""Episodes of two turns: prompts as in inference, rewards by hand, gradients by transformers alone."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.support import grpo_world as grpo
from tests.support.qwen_models import reference
from tests.support.reward_world import (
    MetricRecorder,
    SceneBackbone,
    SceneModels,
    checked,
    make,
    row,
    rows,
    score,
)
from tests.support.scenes import BROKEN, LOCAL, NATIVE, NOTHING, QUESTION, ScriptedPlanner, reply, video
from tests.support.training_reference import assert_gradients, expected_logprobs
from videopro.backbones.wrappers import MeteredBackbone, ThreadMeter
from videopro.errors import ConfigError, DatasetError
from videopro.methods.planners import PromptFile
from videopro.methods.program import Reasoner, ReasoningSettings
from videopro.question import prompts
from videopro.traces import FinalRule
from videopro.train.rl import GRPORow, RefinementTurns, as_dataset
from videopro.train.rl.rollouts import Rollout
from videopro.train.runtime import reference_of, row_of

SLOTS = "{question} {choices} {program} {log}"
OWN = PromptFile(
    {
        "plan": "{question} {choices}",
        "bug_fix": f"own bug_fix {SLOTS}",
        "native_refinement": f"own native_refinement {{answer}} {{confidence}} {SLOTS}",
        "program_refinement": f"own program_refinement {{answer}} {{confidence}} {SLOTS}",
    },
    "f",
)
"""A user's prompts."""
UNSURE = reply("return query_mc(extract_frames(video, num_frames=12), question, choices)")
"""Several steps that end in what the whole video gives: D with 0.4."""


def plan_row(**changes: Any) -> GRPORow:
    """A row as the trainer passes it on."""
    return GRPORow(**vars(checked(**changes)), prompt="Plan.")


def asked_by_inference(text: str, tau: float, file: PromptFile | None = None) -> tuple[str, str] | None:
    """The kind and the prompt of the refinement that inference asks for after this reply."""
    planner, counted = ScriptedPlanner(lambda request: text), ThreadMeter()
    context = SceneModels().context(video(), MeteredBackbone(SceneBackbone(), counted), None)
    settings = ReasoningSettings(tau=tau)
    Reasoner(planner, settings, context, thread_meter=counted, prompt_file=file).reason([QUESTION])
    followed = planner.requests[1:]
    return (followed[0].kind, followed[0].prompt) if followed else None


@pytest.mark.parametrize(
    ("text", "tau", "kind"),
    [
        (LOCAL, 0.75, None),
        (LOCAL, 0.95, "program_refinement"),
        (NATIVE, 0.75, "native_refinement"),
        (NATIVE, 0.3, None),
        (UNSURE, 0.75, "program_refinement"),
        (NOTHING, 0.0, "program_refinement"),
        (BROKEN, 0.75, "bug_fix"),
        ("prose", 0.75, "bug_fix"),
    ],
)
def test_the_refinement_prompt_is_that_of_inference(text: str, tau: float, kind: str | None) -> None:
    for file in (None, OWN):
        with make() as rewards:
            (found,) = RefinementTurns(rewards, tau, file)([plan_row()], [text])
        shown = None if found is None else (found.kind, found.prompt)
        assert shown == asked_by_inference(text, tau, file)
        assert (found and found.kind) == kind
        assert file is None or found is None or found.prompt.startswith(f"own {kind}")


def test_prompts_that_lack_a_refinement_are_refused() -> None:
    with make() as rewards, pytest.raises(ConfigError, match="has no bug_fix"):
        RefinementTurns(rewards, 0.75, PromptFile({"plan": "{question} {choices}"}, "f"))


def test_refinements_are_not_refined_again_and_nothing_runs_twice() -> None:
    with make() as rewards:
        given = [plan_row(), plan_row(kind="bug_fix"), plan_row()]
        found = RefinementTurns(rewards, 0.75)(given, [NATIVE, BROKEN, NATIVE])
        assert [row is None for row in found] == [False, True, False]
        # Inference shows a refinement the video first, whatever the row's own prompt begins with.
        other = replace(given[0], system="Be brief.", before="Look: ")
        (plain,) = RefinementTurns(rewards, 0.75)([other], [NATIVE])
        assert plain == found[0]
        assert rewards.executions == 1
        score(rewards, rows(2), [NATIVE, episode(NATIVE, LOCAL)])
        assert rewards.executions == 2


def test_a_video_that_cannot_be_read_ends_its_episode() -> None:
    with make() as rewards:
        given = [plan_row(video="/nowhere.mp4"), plan_row()]
        assert RefinementTurns(rewards, 0.75)(given, [NATIVE, LOCAL]) == [None, None]


def episode(first: str, second: str) -> list[dict[str, str]]:
    """Two turns, as TRL is given them."""
    turns = (("assistant", first), ("user", "Again."), ("assistant", second))
    return [{"role": role, "content": content} for role, content in turns]


@pytest.mark.parametrize(
    ("first", "second", "earned"),
    [
        # The oracle mode is "program", the right answer B; LOCAL answers B, NATIVE and UNSURE answer D.
        (BROKEN, LOCAL, (1, 1, 1)),
        (NATIVE, LOCAL, (1, 1, 0)),
        # The last program's answer counts, even if it has no answer.
        (LOCAL, UNSURE, (0, 1, 1)),
        (LOCAL, NOTHING, (0, 1, 1)),
        # Every reply is to be of the right form; the mode is the first one's.
        ("prose", LOCAL, (1, 0, 0)),
        (BROKEN, "prose", (0, 0, 1)),
    ],
)
def test_what_an_episode_earns(first: str, second: str, earned: tuple[float, ...]) -> None:
    with make() as rewards:
        assert score(rewards, [row()], [episode(first, second)]) == [earned]


@pytest.mark.parametrize(
    ("final", "second", "earned"),
    [
        ("last-answered", NOTHING, 1),
        # LOCAL is more confident of B than UNSURE of D.
        ("best", UNSURE, 1),
    ],
)
def test_which_answer_of_an_episode_counts(final: FinalRule, second: str, earned: float) -> None:
    with make(final=final) as rewards:
        ((accuracy, _, _),) = score(rewards, [row()], [episode(LOCAL, second)])
    assert accuracy == earned


def test_both_turns_are_logged(tmp_path: Path) -> None:
    recorder = MetricRecorder()
    with make(log=tmp_path / "log.jsonl") as rewards:
        score(rewards, rows(4), [LOCAL, episode(BROKEN, LOCAL), episode(LOCAL, UNSURE), NATIVE], recorder)
    found = dict(recorder.metrics)
    assert (found["programs/refined"], found["programs/first_right"]) == (0.5, 0.5)
    assert (found["programs/failed"], found["programs/native_share"]) == (0.25, 0.25)
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [line["refined"] is not None for line in lines] == [False, True, True, False]
    second = lines[1]["refined"]
    assert (lines[1]["status"], second["answer"], second["correct"]) == ("failed", "B", True)
    assert (lines[2]["reply"], lines[2]["refined"]["reply"]) == (LOCAL, UNSURE)
    assert lines[2]["rewards"]["accuracy"] == 0.0


@pytest.mark.parametrize(("family", "shared"), [("qwen2_5_vl", True), ("qwen3_vl", False)])
def test_both_replies_are_scored_after_their_own_prompts(family: str, shared: bool, tmp_path: Path) -> None:
    first, second, text = (grpo.rows()[number] for number in (0, 1, 4))
    # In the release's form: the refinement, which begins with the video, shares no pass with the plan.
    other = replace(first, system="Write programs.", before="Look: ")
    # Two of a group that get the same refinement, one that gets another, one that gets none; another video;
    # text alone; and two with a system turn, one of which is refined.
    episodes: list[list[tuple[GRPORow, list[int]]]] = [
        [(first, [40, 50, 60, 70]), (grpo.refined(first), [41, 51])],
        [(first, [90]), (grpo.refined(first), [33, 34, 35, 36, 37])],
        [(first, [42, 43]), (grpo.refined(first, "TypeError: a longer log, of\n  two lines"), [44])],
        [(first, [91, 92, 93])],
        [(second, [30, 31]), (grpo.refined(second), [32, 33, 34])],
        [(text, [60, 61]), (grpo.refined(text), [62])],
        [(other, [63, 64]), (grpo.refined(first), [65, 66, 67])],
        [(other, [68])],
    ]
    config = grpo.settings(tmp_path, shared_prompt=shared)
    made = grpo.trainer(family, config, [first, second, text], use_peft=False)
    asked = iter(made._prompt_encoder.encode([row for turns in episodes for row, _ in turns]))
    replies = [[reply for _, reply in turns] for turns in episodes]
    made._rollouts = [
        Rollout(tuple(next(asked) for _ in said), tuple(len(reply) for reply in said[:-1]))
        for said in replies
    ]
    whole = [[token for reply in said for token in reply] for said in replies]
    ids, mask, width = grpo.batch(made, whole)
    found, entropies, _ = made._get_per_token_logps_and_entropies(
        made.model, ids, mask, width, compute_entropy=True
    )
    model, processor = reference(family)
    parts = [
        torch.cat([expected_logprobs(family, model, processor, row, reply) for row, reply in turns])
        for turns in episodes
    ]
    for number, part in enumerate(parts):
        torch.testing.assert_close(found[number, : len(part)], part, atol=1e-4, rtol=1e-4)
        assert not found[number, len(part) :].any()
        assert bool((entropies[number, : len(part)] > 0).all())
    shares = torch.tensor([1.0, -0.7, 0.4, -1.3, 0.9, 0.6, -0.5, 0.8])
    (found.sum(-1) * shares).sum().backward()
    sum(share * part.sum() for share, part in zip(shares, parts, strict=True)).backward()
    assert_gradients(made.model, model)


def test_a_second_turn_shows_the_modules_of_its_row() -> None:
    row = plan_row()
    row = replace(row, reference="signatures", modules=("query_native", "run_ocr"))
    assert [row_of(columns) for columns in as_dataset([row])] == [row]
    with make() as rewards:
        (found,) = RefinementTurns(rewards, 0.75)([row], [NATIVE])
    reference = "- `run_ocr(frame)`\n- `query_native(video, question, choices)`\n"
    assert found.prompt == prompts.native_refinement(QUESTION, prompts.NATIVE_PROGRAM, reference=reference)
    assert (found.reference, found.modules) == (row.reference, row.modules)
    # Rows that differ cannot be trained on together.
    assert (reference_of([row]), reference_of([])) == ("signatures", "none")
    with pytest.raises(DatasetError, match="2 with reference=signatures, 1 with reference=compact"):
        reference_of([row, row, replace(row, reference="compact")])
