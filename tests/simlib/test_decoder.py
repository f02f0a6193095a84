"""The decoder of simlib: what it reads and writes, that questions are blind to each other, and its
training."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
import torch

from videopro.errors import ConfigError, RunError
from videopro.methods.planners import Planner, PlannerReply, PlanRequest
from videopro.modules.calls import CallContext, Choices, NoChoices, Segment, Text
from videopro.runs import RunFolder
from videopro.simlib import (
    KINDS,
    TESTS,
    Decoder,
    DecoderPlanner,
    Oracle,
    answer,
    draw_rows,
    measure,
    record,
    train,
    try_modules,
)
from videopro.simlib.decoder import PAD, UNKNOWN, padded, padded_groups, read_ids, reply_ids, text_of
from videopro.simlib.library import MEASURED
from videopro.simlib.routes import choices
from videopro.simlib.training import encoded, training_row
from videopro.traces import read_traces


@pytest.mark.parametrize("test", TESTS)
def test_it_can_read_and_write_every_row(test: str) -> None:
    for row in draw_rows(test, "val", 3):
        lesson = encoded(row)
        everything = [*lesson.reference, *lesson.questions, *lesson.replies]
        assert UNKNOWN not in {number for ids in everything for number in ids}
        for asked, choice, ids in zip(row.asked, row.best, lesson.replies, strict=True):
            assert text_of(ids[:-1]) == choice.route.reply(asked, row.library)


def test_a_question_is_answered_as_if_it_were_alone() -> None:
    """Neither other questions nor padding changes what a question's place predicts."""
    torch.manual_seed(1)
    decoder = Decoder("0.5").eval()
    rows = [training_row("renamed", 0, number, 1.0) for number in range(2)]
    lessons = [encoded(row) for row in rows]
    count = min(len(lesson.questions) for lesson in lessons)
    references = padded_groups([lesson.reference for lesson in lessons])
    blocks = padded_groups([lesson.questions[:count] for lesson in lessons])
    with torch.inference_mode():
        together = iter(decoder(references, blocks, blocks != PAD))
        for lesson in lessons:
            for ids in lesson.questions[:count]:
                block = torch.tensor([[ids]])
                for place in decoder(padded(lesson.reference)[None], block, block != PAD):
                    torch.testing.assert_close(place, next(together), atol=1e-4, rtol=1e-3)


def test_a_planner_may_be_barred_from_looking_directly() -> None:
    """A reply begins with the template's first words, and then with its first name: of all ways only the look
    begins with the word that is barred."""
    (look, *_) = read_ids("query_native")
    for row in draw_rows("fixed", "val", 10):
        for asked in row.asked:
            for choice in choices(asked, row.library, MEASURED):
                ids = reply_ids(choice.route.parts(asked, row.library))
                assert (ids[1] == look) == (choice.route.needs == {"query_native"})
    torch.manual_seed(1)
    decoder = Decoder("0.5").eval()
    lesson = encoded(next(draw_rows("fixed", "val", 1)))
    free = decoder.write(lesson.reference, lesson.questions)
    barred = decoder.write(lesson.reference, lesson.questions, barred=free[0][1])
    assert [ids[0] for ids in barred] == [ids[0] for ids in free]
    assert free[0][1] not in {ids[1] for ids in barred}
    # What began with another word is the same.
    others = [pair for pair in zip(free, barred, strict=True) if pair[0][1] != free[0][1]]
    assert others
    assert all(a == b for a, b in others)


def test_what_is_kept_of_a_block_changes_nothing_that_is_written() -> None:
    torch.manual_seed(3)
    decoder, lesson = Decoder("0.5").eval(), encoded(training_row("renamed", 0, 5, 1.0))
    replies = decoder.write(lesson.reference, lesson.questions)
    reference = padded(lesson.reference)[None]
    for question, reply in zip(lesson.questions, replies, strict=True):
        block = torch.tensor([[[*question, *reply]]])
        scores = decoder(reference, block, block != PAD)[len(question) - 1 : -1]
        chosen = scores.gather(1, torch.tensor(reply)[:, None])[:, 0]
        # Each word is the most likely one, as far as rounding tells.
        torch.testing.assert_close(chosen, scores.max(-1).values, atol=1e-3, rtol=0)


def test_a_training_that_is_resumed_ends_as_one_that_was_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("videopro.simlib.training._SAVED_SECONDS", -1.0)
    monkeypatch.setattr("videopro.simlib.training.ROWS", 1)
    whole = train("fixed", 0, "0.5", 4)
    assert whole.losses[-1] < whole.losses[0]
    path = tmp_path / "checkpoint"
    # Killed after its second step.
    states: list[bytes] = []
    saving = torch.save

    def keep(state: Mapping[str, object], where: Path) -> None:
        saving(state, where)
        states.append(where.read_bytes())

    monkeypatch.setattr("torch.save", keep)
    train("fixed", 0, "0.5", 4, checkpoint=path)
    path.write_bytes(states[1])
    resumed = train("fixed", 0, "0.5", 4, checkpoint=path)
    assert resumed.losses == whole.losses
    assert resumed.questions == whole.questions
    for name, weights in whole.decoder.state_dict().items():
        assert torch.equal(weights, resumed.decoder.state_dict()[name]), name


def test_a_decoder_is_read_back_as_it_was_saved(tmp_path: Path) -> None:
    decoder = Decoder("0.5")
    decoder.save(tmp_path / "decoder.pt")
    read = Decoder.load(tmp_path / "decoder.pt")
    assert DecoderPlanner(read).identity() == DecoderPlanner(decoder).identity()


def test_a_planner_that_writes_nonsense_is_scored_as_such() -> None:
    torch.manual_seed(2)
    scores = measure(DecoderPlanner(Decoder("0.5")), "dropped", "val", 1)
    assert scores["right"] == scores["same"] == scores["called"] == 0.0
    assert scores["oracle"] > 0.6
    assert 0 < scores["missing"]["questions"] < scores["questions"]
    assert set(scores["kinds"]) <= set(KINDS)


def test_the_oracle_has_full_marks() -> None:
    oracles = [Oracle(row) for row in draw_rows("new_only", "val", 2)]
    oracles[0]._replies |= oracles[1]._replies
    scores = measure(oracles[0], "new_only", "val", 2)
    assert scores["right"] == scores["oracle"] > 0.9
    assert scores["same"] == scores["called"] == 1.0
    assert scores["absent"] == 0.0


def test_a_run_of_rows_is_a_run_like_any_other(tmp_path: Path) -> None:
    rows = list(draw_rows("both", "val", 2))
    planners = [Oracle(row) for row in rows]
    results = [answer(row, planner) for row, planner in zip(rows, planners, strict=True)]
    record(list(zip(rows, results, strict=True)), planners[0], tmp_path / "run")
    with pytest.raises(RunError, match="already has"):
        record(list(zip(rows, results, strict=True)), planners[0], tmp_path / "run")
    traces = read_traces(RunFolder(tmp_path / "run").traces)
    assert len(traces) == sum(len(row.asked) for row in rows)
    for row, found in zip(rows, results, strict=True):
        for asked, result in zip(row.asked, found, strict=True):
            (trace,) = [t for t in traces if t.question_id == f"{row.story.name}/{asked.kind}"]
            assert trace.gold == asked.answer
            assert trace.final == result.final
            assert [call.fn for call in trace.rounds[0].execution.calls] == [
                call.fn for call in result.rounds[0].execution.calls
            ]


def read_board(call: CallContext, video: Segment, none: NoChoices, where: Text, options: Choices) -> str:
    """Read what a board says."""
    # Planners are not shown the second argument, and the stand-in has none.
    raise NotImplementedError


def hint(call: CallContext, video: Segment, query: Text) -> str:
    """Tell what is said."""
    raise NotImplementedError


class Caller(Planner):
    """Calls a user's module for every question, or a general one."""

    name = "caller"
    asks_model = False
    is_fine_tuned = True
    reference = "compact"

    def __init__(self, name: str) -> None:
        self._name = name

    def identity(self) -> dict[str, object]:
        return {"planner": self.name}

    def write(self, requests: Sequence[PlanRequest]) -> list[PlannerReply]:
        line = "- `read_board(video, where, options)`: Read what a board says\n"
        assert all(line in request.prompt for request in requests)
        place = [
            request.question.text.partition(" the sign at the ")[2].split(" ")[0] for request in requests
        ]
        body = {
            "read_board": '    return read_board(video, "{}", choices)',
            "query_native": "    return query_native(video, question, choices)",
            "failing": "    return read_board()",
        }[self._name]
        return [
            PlannerReply(
                f"<planning>\nx\n</planning>\n<code>\ndef execute_command(video, question):\n"
                f"{body.format(each.rstrip('?'))}\n</code>"
            )
            for each in place
        ]


def test_ones_own_modules_are_tried() -> None:
    found = try_modules(Caller("read_board"), {"get_sign": read_board}, stories=6)["get_sign"]
    assert found["questions"] == 6
    assert found["called"] == 1.0
    assert found["right"] == 1.0
    # The channel misreads a sign in 26 of 100 looks.
    assert found["oracle"] == 0.74
    found = try_modules(Caller("query_native"), {"get_sign": read_board}, stories=6)["get_sign"]
    assert found["called"] == 0.0
    # A call without what it needs gives no answer.
    assert try_modules(Caller("failing"), {"get_sign": read_board}, stories=6)["get_sign"]["called"] == 0.0
    with pytest.raises(ConfigError, match="unknown operation 'get_smell'"):
        try_modules(Caller("read_board"), {"get_smell": read_board})
    with pytest.raises(
        ConfigError,
        match=r"read_board\(\) stands for get_weather\(\), so it takes, in this order: "
        r"call, video: Segment, choices: Choices$",
    ):
        try_modules(Caller("read_board"), {"get_weather": read_board})
    with pytest.raises(ConfigError, match="get_subtitle_hints is the best way of no question in 20 stories"):
        try_modules(Caller("query_native"), {"get_subtitle_hints": hint})
    with pytest.raises(ConfigError, match="two modules are named read_board"):
        try_modules(Caller("read_board"), {"get_sign": read_board, "get_color": read_board})
