"""What simlib's teacher teaches, and what a planner learns from its own replies."""

import numpy as np
import pytest
import torch

from videopro.methods.program import ReasoningSettings
from videopro.simlib import (
    Decoder,
    DecoderPlanner,
    adaptive_row,
    answer,
    expected_modes,
    grpo_lesson,
    look,
    oracle_modes,
    rejection_lesson,
    roll_out,
    teach,
)
from videopro.simlib.decoder import UNKNOWN, reply_ids, split_prompt, text_of
from videopro.simlib.teaching import Given, lesson
from videopro.simlib.training import Learner, Lesson, plan_prompt


def test_each_kind_of_row_is_what_the_paper_says() -> None:
    seen: set[str] = set()
    absent_calls = 0
    for number in range(12):
        row = adaptive_row("train", 0, number)
        looks = dict(zip(row.asked, look(row), strict=True))
        for each in teach(row, np.random.default_rng(number)):
            seen.add(each.kind)
            reply = each.route.reply(each.asked, row.library)
            one = type(row)(row.story, row.library, (each.asked,), (row.best[0],))
            (result,) = answer(one, Given([reply]))
            assert result.rounds[0].execution is not None
            assert result.rounds[0].execution.answer.letter == each.asked.answer
            is_direct = each.route.body == "return {query_native}(video, question, choices)"
            direct = looks[each.asked].final
            assert direct is not None
            is_sure = direct.letter == each.asked.answer and direct.confidence >= 0.75
            # A look that is sure and right needs no program.
            assert is_sure == (each.kind == "R1")
            assert is_direct >= (each.kind == "R1")
            assert ("Buggy program:" in each.prompt) == (each.kind == "R3")
            assert ("Existing program:" in each.prompt) == (each.kind == "R4")
            assert reply not in each.prompt
            if "NameError" in each.prompt:
                # It called what is absent, and is told what is there.
                there = each.prompt.rpartition("available functions: ")[2].split(", ")
                assert set(there) == {f"{name}()" for name in row.library.names}
                absent_calls += 1
    assert seen == {"R1", "R2", "R3", "R4"}
    assert absent_calls > 0


def test_a_program_to_refine_is_read_by_its_names_and_words() -> None:
    for number in range(12):
        row = adaptive_row("train", 1, number)
        taught = [each for each in teach(row, np.random.default_rng(number)) if each.kind in ("R3", "R4")]
        if not taught:
            continue
        learned = lesson(row, taught)
        for each, question, reply in zip(taught, learned.questions, learned.replies, strict=True):
            assert UNKNOWN not in question
            text = text_of(question)
            program = each.prompt.rpartition("program:\n<code>\n")[2].partition("\n</code>")[0]
            called = [
                word for word in program.replace("(", " ").split() if word.startswith(("get_", "query"))
            ]
            assert all(name in text for name in called)
            # Nothing of the log, where a program failed.
            assert "Error" not in text
            assert text_of(reply[:-1]) == each.route.reply(each.asked, row.library)
        return
    pytest.fail("no row to refine")


def test_a_refinement_is_another_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    row = adaptive_row("val", 0, 1)
    decoder, read = Decoder("0.5"), []
    replies = {
        tuple(split_prompt(plan_prompt(row, asked))[1]): reply_ids(best.route.parts(asked, row.library))[:-1]
        for asked, best in zip(row.asked, row.best, strict=True)
    }

    def of(question: list[int]) -> tuple[int, ...]:
        return next(plan for plan in replies if tuple(question[: len(plan)]) == plan)

    def write(reference: object, questions: list[list[int]], *_: object) -> list[list[int]]:
        read.append(questions)
        return [replies[of(question)] for question in questions]

    monkeypatch.setattr(decoder, "write", write)
    answer(row, DecoderPlanner(decoder), settings=ReasoningSettings(tau=1.0))
    first, second = read
    assert [tuple(question) for question in first] == list(replies)
    # An answer may be sure to the last digit.
    assert len(second) > len(first) / 2
    for refined in second:
        attempt = text_of(refined[len(of(refined)) :])
        assert "Existing" in attempt or "Buggy" in attempt
        called = [key for key in row.library.names if key in text_of(replies[of(refined)])]
        assert called
        assert all(key in attempt for key in called)


def written(monkeypatch: pytest.MonkeyPatch, replies: list[list[int]]) -> Decoder:
    """A decoder that writes these replies."""
    decoder = Decoder("0.5")
    monkeypatch.setattr(decoder, "write", lambda *_: replies)
    return decoder


def test_replies_earn_the_rewards_of_equation_3(monkeypatch: pytest.MonkeyPatch) -> None:
    row = adaptive_row("train", 0, 5)
    names = row.library.names
    right, absent, nonsense = [], [], []
    for asked, best in zip(row.asked, row.best, strict=True):
        parts = best.route.parts(asked, row.library)
        right.append(reply_ids(parts)[:-1])
        absent.append(reply_ids([part if part not in names.values() else "get_shape" for part in parts])[:-1])
        nonsense.append(right[-1][1:])
    drawn = [ids for four in zip(right, absent, nonsense, right, strict=True) for ids in four]
    generator = torch.Generator()
    groups = roll_out(written(monkeypatch, drawn), row, 4, generator, modes=["program"] * len(row.asked))
    looks = [len(choice.route.needs) == 1 and "query_native" in choice.route.needs for choice in row.best]
    for (good, bad, malformed, same), is_look in zip(groups, looks, strict=True):
        assert same == good
        assert good.rewards.format == 1.0
        assert good.rewards.mode_consistency == float(not is_look)
        assert bad.rewards.format == bad.rewards.accuracy == 0.0
        # Eq. 3 pays for an answer, whatever the reply's form.
        assert malformed.rewards.format == 0.0
        assert malformed.rewards.accuracy == good.rewards.accuracy
    assert sum(good.rewards.accuracy or 0 for good, *_ in groups) >= 0.6 * len(groups)
    # Looked at the scene in question, or at all of the video.
    overlaps = [good.overlap for (good, *_), is_look in zip(groups, looks, strict=True) if not is_look]
    assert sum(overlaps) / len(overlaps) > 0.5
    made = grpo_lesson(row, groups, lambda each: each.rewards.format or 0.0)
    assert made is not None
    assert made.weights is not None
    for at in range(0, len(made.weights), 3):
        # Of 1, 0, 0, 1 each is one standard deviation from the mean; the two that are the same are one reply.
        assert made.weights[at : at + 3] == pytest.approx([2.0, -1.0, -1.0], abs=1e-3)
    assert len(made.weights) == len(made.replies) == 3 * len(groups)
    assert grpo_lesson(row, groups, lambda _: 1.0) is None
    kept = rejection_lesson(row, groups)
    assert kept is not None
    assert [ids[:-1] for ids in kept.replies] == [
        good.ids[:-1] for good, *_ in groups if good.rewards.accuracy == 1
    ]


def test_a_mode_by_luck_is_not_the_mode_by_expectation() -> None:
    rows = [adaptive_row("train", 0, number) for number in range(20)]
    lucky = 0
    for row in rows:
        for asked, by_luck, expected in zip(row.asked, oracle_modes(row), expected_modes(row), strict=True):
            if asked.kind == "weather":
                # What the whole video shows, one look sees.
                assert expected == "native"
            if asked.kind == "sign" and "get_sign" in row.library.names:
                assert expected == "program"
            lucky += (by_luck, expected) == ("native", "program")
    assert lucky > 0


def test_a_weight_says_whether_a_reply_becomes_more_likely() -> None:
    torch.manual_seed(0)
    row = adaptive_row("train", 0, 1)
    taught = lesson(
        row, [each for each in teach(row, np.random.default_rng(1)) if each.kind in ("R1", "R2")][:2]
    )
    learner = Learner(Decoder("0.5"), 1e-3)

    def losses() -> list[float]:
        found = []
        for question, reply in zip(taught.questions, taught.replies, strict=True):
            block = torch.tensor([[[*question, *reply]]])
            scores = learner.decoder(_padded(taught.reference), block, block >= 0)[len(question) - 1 : -1]
            found.append(-scores.gather(1, torch.tensor(reply)[:, None]).mean().item())
        return found

    before = losses()
    for _ in range(5):
        learner.step([Lesson(taught.reference, taught.questions, taught.replies, [1.0, -0.2])], 0.0, warmup=1)
    after = losses()
    assert after[0] < before[0]
    assert after[1] - after[0] > before[1] - before[0]


def _padded(entries: list[list[int]]) -> torch.Tensor:
    longest = max(map(len, entries))
    return torch.tensor([[[*entry, *[0] * (longest - len(entry))] for entry in entries]])


def test_replies_are_drawn_alike_for_a_seed() -> None:
    torch.manual_seed(0)
    row = adaptive_row("val", 0, 1)
    decoder = Decoder("0.5")

    def drawn(seed: int) -> list[str]:
        planner = DecoderPlanner(decoder, torch.Generator().manual_seed(seed))
        return [result.rounds[0].raw for result in answer(row, planner)]

    assert drawn(1) == drawn(1) != drawn(2)
    assert split_prompt("Available functions\n\n\n\nQuestion: Where?")[0] == []
