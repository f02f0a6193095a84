"""What Deep Video Discovery's adapter is trained on: a teacher that plays the method's language model."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.torch import load_file

from tests.support.drawn_world import BALL, scene
from tests.support.dvd_world import ScriptedDvd
from tests.support.method_world import context, item
from tests.support.reason_world import SceneBackbone
from tests.support.scripted_model import ScriptedModel
from videopro.backbones import load_backbone
from videopro.methods.agents import parse_reply
from videopro.methods.dvd.tools import offered, one_call
from videopro.pocket import adapter_dir
from videopro.pocket.questions import PocketQuestion
from videopro.pocket.script import NarrationLine, Script
from videopro.question import Question
from videopro.train.pocket.agents import adapter
from videopro.train.pocket.agents.dvd import (
    MOVE_RIGHT,
    SETTINGS,
    DvdTeacher,
    caption,
    captioned,
    searched,
    tool_rows,
)
from videopro.train.pocket.agents.views import DrawnVideo
from videopro.train.pocket.agents.witness import Witness
from videopro.video import Frame

Call = dict[str, Any]

CAPTIONS = {
    # The clip from 30 to 35 s is named wrongly, so that one clip only names the market.
    **dict.fromkeys(range(4), "Nothing moves at the beach. It is sunny."),
    4: "A red ball jumps at the market. It is sunny.",
    5: "A red ball slides at the lake. It is sunny.",
    6: "A blue star rests at the lake. It is sunny.",
    **dict.fromkeys(range(7, 12), "Nothing moves at the lake. It is sunny."),
}
"""By clip of five seconds of a minute."""


def drawn() -> DrawnVideo:
    """A minute; the market is shown from 20 to 30 s."""
    video = DrawnVideo(0)
    scenes = (scene("beach", 0, 20), scene("market", 20, 30, BALL), scene("lake", 30, 60))
    lines = (
        NarrationLine(21.0, 24.0, "The old baker laughs.", "event"),
        NarrationLine(41.0, 44.0, "Anna lost a lamp.", "fact", "Anna", "lost", "lamp"),
    )
    video.script = Script("short", 0, "sunny", "race", scenes, lines)
    return video


def asked(kind: str, text: str, choices: tuple[str, ...], answer: str) -> Witness:
    return Witness(drawn(), PocketQuestion(kind, kind, text, choices, answer, ((20.0, 30.0),)))


COLOR = asked("color", "What color is the ball at the market?", ("blue", "red"), "B")
MOVE = asked("move", "What does the ball do at the market?", ("slides", "rests"), "A")
AFTER = asked("after", "Which place comes right after the market?", ("lake", "cave"), "A")
MAIN = asked("main_place", "Which place is shown most of the time?", ("beach", "lake"), "B")
SPOKEN = asked(
    "spoken", 'Where is the video when the narrator says "The old baker laughs."?', ("cave", "market"), "B"
)
FACT = asked("narration", "What does the narrator say that Anna lost?", ("key", "lamp"), "B")


def run(witness: Witness) -> DvdTeacher:
    told = [CAPTIONS[number] for number in range(12)]
    return searched(np.random.default_rng(0), witness, captioned(witness.video, told))


def calls(witness: Witness) -> list[Call]:
    return [json.loads(reply) for _, reply in run(witness).pairs]


def search(query: str, top_k: int) -> Call:
    return {"tool": "clip_search", "arguments": {"query": query, "top_k": top_k}}


def inspect(question: str, start: float, end: float) -> Call:
    said = f"{question}\nReply with the letter of the right option only."
    return {"tool": "frame_inspect", "arguments": {"question": said, "time_ranges": [[start, end]]}}


def answer(text: str) -> Call:
    return {"tool": "answer", "arguments": {"text": text}}


# ---- what the teacher does -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("witness", "expected"),
    [
        (COLOR, [search(COLOR.labelled.text, 3), answer("red")]),
        (SPOKEN, [search("The old baker laughs.", 1), answer("market")]),
        (FACT, [search(FACT.labelled.text, 3), answer("lamp")]),
    ],
)
def test_what_captions_tell_is_answered(witness: Witness, expected: list[Call]) -> None:
    assert calls(witness) == expected


def test_what_they_do_not_tell_is_looked_at() -> None:
    """The only caption of the market says that the ball jumps, which is no option."""
    first, second, third = calls(MOVE)
    assert first == search(MOVE.labelled.text, 3)
    assert second == inspect("What does the ball do at the market?\nA. slides\nB. rests", 20.0, 25.0)
    assert third in (answer("A"), answer("B"))


def test_what_comes_next_is_looked_at_around_the_clip() -> None:
    """Ten seconds before and after the clip from 20 to 25 s."""
    first, second, _ = calls(AFTER)
    assert first == search(AFTER.labelled.text, 1)
    assert second == inspect("Which place comes right after the market?\nA. lake\nB. cave", 10.0, 35.0)


def test_the_whole_video_is_looked_at_without_a_search() -> None:
    first, _ = calls(MAIN)
    assert first == inspect("Which place is shown most of the time?\nA. beach\nB. lake", 0, 60)


def test_it_says_what_it_was_told() -> None:
    """Right or wrong: the letter of the VQA model's reply, never the script's."""
    told = [CAPTIONS[number] for number in range(12)]
    letters = []
    for seed in range(30):
        teacher = searched(np.random.default_rng(seed), MOVE, captioned(MOVE.video, told))
        said = teacher.pairs[-1][0].rpartition("Observation: ")[2][0]
        letters.append(said)
        assert json.loads(teacher.pairs[-1][1]) == answer(said)
    assert {*letters} == {"A", "B"}


# ---- prompts and rows ------------------------------------------------------------------------------------


@pytest.mark.parametrize("witness", [COLOR, MOVE, AFTER, MAIN, SPOKEN, FACT])
def test_prompts_are_those_that_the_method_sends(
    witness: Witness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The method itself, with its database, on a file of a minute."""
    monkeypatch.setenv("VIDEOPRO_CACHE", str(tmp_path))
    subtitles = tmp_path / "lines.srt"
    subtitles.write_text(
        "1\n00:00:21,000 --> 00:00:24,000\nThe old baker laughs.\n\n"
        "2\n00:00:41,000 --> 00:00:44,000\nAnna lost a lamp.\n"
    )
    teacher = run(witness)
    replies = [reply for _, reply in teacher.pairs]
    seen = teacher.pairs[-1][0].rpartition("Observation: ")[2][0]

    def describe(prompt: str, frames: Sequence[Frame]) -> str:
        return CAPTIONS[int(frames[0].time // 5)]

    method = ScriptedDvd(
        SETTINGS,
        llm=ScriptedModel(replies),
        captioner=ScriptedModel([describe], forever=True),
        vqa=ScriptedModel([seen], forever=True),
    )
    question = Question(witness.labelled.text, witness.labelled.choices)
    result = method.run(item(question=question, subtitles=subtitles), context(SceneBackbone()))
    assert result.error is None
    prompts = [step.prompt for step in result.steps if step.kind == "act"]
    assert prompts == [prompt for prompt, _ in teacher.pairs]
    assert result.final is not None
    said = json.loads(replies[-1])["arguments"]["text"]
    assert said in (result.final.letter, question.choice(result.final.letter or ""))


def test_rows_are_in_the_methods_form() -> None:
    schema = one_call(offered(SETTINGS))
    used: dict[str, int] = {}
    for seed in range(20):
        (row,) = tool_rows(np.random.default_rng(seed))
        assert row.frames is None
        for prompt, reply in row.exchanges:
            call = parse_reply(reply, schema).root
            used[call.tool] = used.get(call.tool, 0) + 1
            assert prompt.count("Observation: ") < 4
            if call.tool == "answer":
                options = prompt.partition("enough.\n\n")[2].partition("\n\n")[0]
                text = call.arguments.model_dump()["text"]
                assert f"\n{text}. " in options or f". {text}\n" in f"{options}\n"
    assert {*used} == {"clip_search", "frame_inspect", "answer"}
    assert min(used.values()) >= 20


def test_rows_are_a_function_of_the_seed() -> None:
    first, again, another = (tool_rows(np.random.default_rng(seed)) for seed in (4, 4, 5))
    assert first == again
    assert first != another


def test_captions_are_wrong_as_often_as_those_of_the_pocket_model() -> None:
    """A ball that slides: place, colour and weather are right, the move about as often as was measured."""
    rng = np.random.default_rng(0)
    told = [caption(rng, drawn(), [21.0, 25.0]) for _ in range(400)]
    assert all(each.startswith("A red ") for each in told)
    assert all(each.endswith(" at the market. It is sunny.") for each in told)
    assert np.mean([" slides " in each for each in told]) == pytest.approx(MOVE_RIGHT, abs=0.08)


def test_an_adapter_continues_from_a_planners_layers(tmp_path: Path) -> None:
    start = str(adapter_dir("pocket-sft"))
    words = ["dvd", "--output", str(tmp_path), "--steps", "1", "--draws", "1", "--adapter", start]
    assert adapter.main(words) == 0
    weights = load_file(tmp_path / "adapter" / "adapter_model.safetensors")
    assert all("lora_" in name for name in weights)
    # Six layers of width 256: q and o 256 to 256, k and v to 128, gate and up to 640, down from 640; rank 32.
    assert sum(weight.numel() for weight in weights.values()) == 6 * 32 * (2 * 512 + 2 * 384 + 3 * 896)
    assert json.loads((tmp_path / "adapter" / "adapter_config.json").read_text())["modules_to_save"] is None
    loaded = load_backbone("pocket", adapter=str(tmp_path / "adapter"))
    assert loaded.identity()["adapter"] is not None
    loaded.close()
