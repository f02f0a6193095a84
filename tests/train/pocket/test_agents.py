"""What the agents' adapters are trained on: teachers say only what frames show, in the methods' own forms."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import Qwen3VLForConditionalGeneration

from tests.support.drawn_world import AFTER, COLOR, FACT, MOVE
from videopro.backbones import load_backbone
from videopro.methods.agents import parse_reply
from videopro.methods.lvagent.prompts import scores_of as points_of
from videopro.methods.vca.prompts import action_of, scores_of
from videopro.pocket import model_dir, world
from videopro.pocket.script import LENGTHS
from videopro.question import Question
from videopro.train.pocket import architecture as checkpoint
from videopro.train.pocket.agents import adapter
from videopro.train.pocket.agents.lvagent import discussion_rows, look
from videopro.train.pocket.agents.vca import VcaTeacher, same_path, search_rows
from videopro.train.pocket.agents.views import VIEW_SEED, DrawnVideo
from videopro.train.pocket.agents.witness import Witness
from videopro.train.pocket.batches import BatchEncoder
from videopro.train.pocket.exchange_attention import NAME as EXCHANGES
from videopro.train.pocket.language import hidden

# ---- what frames tell ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("witness", "times", "said", "is_known"),
    [
        (COLOR, [5.0, 40.0], "No frame shows the market.", False),
        (COLOR, [5.0, 20.0], "A red ball slides at the market.", True),
        # One frame shows a colour; a movement takes three.
        (MOVE, [16.0, 20.0], "The frames show the market.", False),
        (MOVE, [16.0, 20.0, 25.0], "A red ball slides at the market.", True),
        (AFTER, [5.0, 20.0, 40.0], "The lake comes right after the market.", True),
        # The lake lies between two frames: what seems to come next is not taken for the answer.
        (AFTER, [5.0, 20.0, 50.0], "The frames show the market.", False),
        (FACT, [20.0, 24.0], "No frame shows it.", False),
        (FACT, [22.0], "No frame shows it.", True),
    ],
)
def test_a_witness_says_what_frames_show(
    witness: Witness, times: list[float], said: str, is_known: bool
) -> None:
    assert witness.testimony(times)[0] == said
    assert witness.is_answerable(times) is is_known


def test_support_of_an_answer() -> None:
    seen, place, missed = [16.0, 20.0, 25.0], [20.0], [5.0]
    assert COLOR.support(seen, "B") == "shown"
    assert COLOR.support(seen, "A") == COLOR.support(missed, None) == "against"
    assert MOVE.support(place, "A") == MOVE.support(place, "B") == "place"
    assert COLOR.support(missed, "A") == COLOR.support(missed, "B") == "nothing"


# ---- VCA -----------------------------------------------------------------------------------------------


def test_scores_follow_the_frames_at_a_segments_ends() -> None:
    """Frames at 10, 20, ..., 60 s: those at 20 and 30 s show the market."""
    teacher = VcaTeacher(COLOR, 16)
    teacher.explore(None)
    assert [node.score for node in teacher.last] == [10, 80, 100, 80, 10, 10, 10]
    assert json.loads(teacher.reward_pair()[1])["1"] == {"score": 80}
    assert teacher.sees_some()
    assert json.loads(teacher.explore_pair()[1]) == {"answer": "B"}


def test_a_small_buffer_is_shown_as_few_frames() -> None:
    """Four of the frames at 10, 20, ..., 60 s: the first, third, fourth and last; that at 30 s shows the
    market."""
    teacher = VcaTeacher(COLOR, 4)
    teacher.explore(None)
    assert [round(node.end) for node in teacher.last[:-1]] == [10, 30, 40, 60]
    assert [node.score for node in teacher.last] == [10, 80, 80, 10, 10]


def test_a_movement_is_looked_at_more_closely() -> None:
    """Two of the frames show the market, and the segment between them is explored first."""
    teacher = VcaTeacher(MOVE, 16)
    teacher.explore(None)
    assert json.loads(teacher.explore_pair()[1]) == {"segment": 2}
    teacher.explore(teacher.tree.nodes[2])
    assert json.loads(teacher.explore_pair()[1]) == {"answer": "A"}


def test_it_turns_back_from_a_segment_that_showed_nothing() -> None:
    """After the fifth part, whose frames show no market, the best one is open still."""
    teacher = same_path(MOVE, 16, [4])
    assert [node.number for node in teacher.explored] == [4]
    assert {node.score for node in teacher.last} == {10}
    assert json.loads(teacher.explore_pair()[1]) == {"segment": 2}


def test_what_is_only_said_is_answered_at_once() -> None:
    teacher = VcaTeacher(FACT, 16)
    teacher.explore(None)
    assert {node.score for node in teacher.last} == {0}
    assert json.loads(teacher.explore_pair()[1]) == {"answer": "A"}


def test_rows_of_vca_are_in_the_methods_forms() -> None:
    forms = {"reward": 0, "explore": 0, "answer": 0}
    for seed in range(12):
        for row in search_rows(np.random.default_rng(seed)):
            assert row.frames is not None
            assert len(row.frames) == len(row.times)
            assert len(row.frames) % 2 == 0
            for said, reply in row.exchanges:
                letters = re.findall(r"^([A-Z])\. ", said, re.MULTILINE)
                if said.startswith("Which parts"):
                    forms["reward"] += 1
                    parts = said.partition("New parts")[2]
                    numbers = [int(n) for n in re.findall(r"^(\d+): ", parts, re.MULTILINE)]
                    assert set(parse_reply(reply, scores_of(numbers)).by_number()) == set(numbers)
                elif said.startswith("Find the answer"):
                    forms["explore"] += 1
                    parts = said.partition("Parts to look into")[2]
                    numbers = [int(n) for n in re.findall(r"^(\d+): ", parts, re.MULTILINE)]
                    question = Question("Which?", tuple(letters))
                    parse_reply(reply, action_of(question, segments=numbers))
                else:
                    forms["answer"] += 1
                    assert reply in letters
    assert min(forms.values()) >= 5


# ---- LVAgent -------------------------------------------------------------------------------------------


def test_rows_of_lvagent_are_in_the_methods_forms() -> None:
    forms = {"whole": 0, "key": 0, "answer": 0, "reason": 0, "score": 0}
    for seed in range(8):
        for row in discussion_rows(np.random.default_rng(seed)):
            for said, reply in row.exchanges:
                letters = re.findall(r"^([A-Z])\. ", said, re.MULTILINE)
                if "Is all of it needed" in said:
                    forms["whole"] += 1
                    assert reply in ("Yes", "No")
                elif "Name in at most 50 words" in said:
                    forms["key"] += 1
                    assert 0 < len(reply.split()) <= 50
                elif "Your answer was" in said:
                    forms["reason"] += 1
                    assert reply.endswith(".")
                elif "Give each a score" in said:
                    forms["score"] += 1
                    assert row.frames is None
                    numbers = [int(n) for n in re.findall(r"^(\d): ", said, re.MULTILINE)]
                    assert set(parse_reply(reply, points_of(numbers)).by_number()) == set(numbers)
                else:
                    forms["answer"] += 1
                    assert reply in letters
    assert min(forms.values()) >= 8


def test_a_second_look_is_mostly_at_the_chunk_of_the_evidence() -> None:
    """The market's middle, 24 s, is in the third of six chunks of 70 s: 23.3 to 35 s."""
    rng = np.random.default_rng(0)
    looks = [look(rng, COLOR) for _ in range(200)]
    inside = [all(140 / 6 <= time <= 35 for time in times) for times in looks]
    assert {len(times) for times in looks} == {16, 8, 4}
    assert 0.5 < np.mean(inside) < 0.8


# ---- training ------------------------------------------------------------------------------------------


def test_no_video_of_a_split_is_among_the_rows() -> None:
    """Numbers are drawn below a million; the splits' seeds and those of 100 fresh worlds lie below all."""
    known = {seed for split in ("train", "val", "test") for _, _, seed in world.video_names(split)}
    known |= {seed for fresh in range(100) for _, _, seed in world.video_names("fresh", fresh)}
    assert max(known) < VIEW_SEED
    video = DrawnVideo(4)
    assert (video.script.length, video.script.seed) == (LENGTHS[1], VIEW_SEED + 4)


def test_exchanges_of_a_row_are_processed_as_if_alone() -> None:
    """Against transformers' own attention over each exchange by itself."""
    model = Qwen3VLForConditionalGeneration.from_pretrained(model_dir(), dtype=torch.float32).eval()
    config = model.model.language_model.config
    encoder = BatchEncoder(checkpoint.build_tokenizer())
    row = next(row for row in search_rows(np.random.default_rng(1)) if len(row.exchanges) >= 3)
    together = encoder.batch([row])
    assert int(together.exchange.max()) == len(row.exchanges)
    with torch.no_grad():
        config._attn_implementation = EXCHANGES
        states = hidden(model, together)[0]
        config._attn_implementation = "sdpa"
        for number, pair in enumerate(row.exchanges, 1):
            alone = encoder.batch([replace(row, exchanges=[pair])])
            own = together.exchange[0] == number
            expected = hidden(model, alone)[0, -int(own.sum()) :]
            torch.testing.assert_close(states[own], expected, atol=1e-3, rtol=1e-3)
            assert together.input_ids[0, own].tolist() == alone.input_ids[0, -int(own.sum()) :].tolist()


@pytest.mark.long
def test_training_resumes_and_its_adapter_loads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["lvagent", "--output", str(tmp_path), "--steps", "2", "--draws", "1", "--rank", "4"]
    assert adapter.main(words) == 0
    file = tmp_path / "adapter" / "adapter_model.safetensors"
    first = file.read_bytes()
    record = json.loads((tmp_path / "adapter" / "training_record.json").read_text())
    assert record["recipe"]["steps"] == 2
    # Six layers of width 256: q and o 256 to 256, k and v to 128, gate and up to 640, down from 640; rank 4.
    assert record["weights"] == 6 * 4 * (2 * 512 + 2 * 384 + 3 * 896)
    assert adapter.main(words) == 0
    assert file.read_bytes() == first
    assert adapter.main([*words, "--steps", "1"]) == 2
    assert "trained for 2 steps, and 1 are asked for" in capsys.readouterr().err
    loaded = load_backbone("pocket", adapter=str(tmp_path / "adapter"))
    assert loaded.identity()["adapter"] is not None
    loaded.close()
