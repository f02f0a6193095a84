"""What a program's requests bring about: its own failure, unless the question fails without a program too."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from tests.support import scenes as world
from tests.support.scenes import QUESTION, SceneBackbone, reply
from videopro.backbones.wrappers import BatchingBackbone, MeteredBackbone, ThreadMeter
from videopro.errors import BackboneError, NativeError, VideoError
from videopro.executor import Limits, parse_program
from videopro.methods.program import execute
from videopro.modules.models import Ocr
from videopro.modules.models.ocr import TextRegion
from videopro.question import Question
from videopro.video import Video

READ = "words = run_ocr(extract_frames(video, 1)[0])\nreturn query_native(video, question, choices)"
CAUGHT = (
    "try:\n    run_ocr(extract_frames(video, 1)[0])\nexcept Exception as error:\n    print(error)\n"
    "return query_native(video, question, choices)"
)


class FailingOcr(Ocr):
    """Raises what it is given."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    def identity(self) -> object:
        return "failing"

    def _read(self, image: np.ndarray) -> list[TextRegion]:
        raise self.error


def run(
    code: str,
    *,
    question: Question = QUESTION,
    backbone: SceneBackbone | None = None,
    limits: Limits | None = None,
    **models: Any,
) -> tuple[Any, str]:
    meter = ThreadMeter()
    answers = backbone if backbone is not None else SceneBackbone()
    context = world.video_context(MeteredBackbone(BatchingBackbone(answers), meter), **models)
    program = parse_program(reply(code))
    return execute(program, question, context, limits=limits or Limits(), thread_meter=meter)


def test_a_librarys_exception_is_the_programs_failure_with_its_record() -> None:
    execution, log = run(READ, ocr=FailingOcr(ValueError("size (0, 4)")))
    assert execution.status == "failed"
    assert execution.error.type == "CallError"
    assert execution.error.message == "run_ocr() could not be served: ValueError: size (0, 4)"
    # What a refinement is shown: the message and the program's line.
    assert "size (0, 4)" in log
    assert "line 2" in log
    (record,) = execution.exceptions
    assert (record.type, record.message) == ("ValueError", "size (0, 4)")
    assert record.place.startswith("tests/methods/program/test_guarding.py:")
    assert "raise self.error" in record.traceback


def test_a_program_may_catch_it_and_those_of_one_kind_are_recorded_once() -> None:
    many = "for frame in extract_frames(video, 6):\n    try:\n        run_ocr(frame)\n    except Exception:\n"
    body = f"{many}        pass\nreturn query_native(video, question, choices)"
    execution, _ = run(body, ocr=FailingOcr(ValueError("no")))
    assert (execution.status, len(execution.calls)) == ("ok", 8)
    assert [record.type for record in execution.exceptions] == ["ValueError"]


@pytest.mark.parametrize("kind", [VideoError, BackboneError])
def test_a_request_that_the_video_or_the_model_refuses_is_the_programs_failure(kind: type[Exception]) -> None:
    """The question is answered without the program, so it is a wrong answer and no question left out."""
    execution, _ = run(READ, ocr=FailingOcr(kind("box (0, 0, 0, 1)")))
    assert execution.error.type == "CallError"
    assert "box (0, 0, 0, 1)" in execution.error.message
    assert execution.exceptions == ()


class LeavingBackbone(SceneBackbone):
    """Refuses yes-or-no questions; from the `last` one on it serves nothing."""

    def __init__(self, last: int | None = None) -> None:
        super().__init__()
        self.last, self.refused, self.checks = last, 0, 0

    def yes_no_batch(self, requests: Any) -> Any:
        self.refused += 1
        self.gone |= self.refused == self.last
        raise BackboneError("no answer")

    def answer_batch(self, requests: Any) -> Any:
        self.checks += sum(request.visual is None for request in requests)
        return super().answer_batch(requests)


SEEN = "answer = query_native(video, question, choices)\n"
ASKED = "query_yn(extract_frames(video, 1), 'Is it?')"


@pytest.mark.parametrize(
    "code",
    [f"{SEEN}{ASKED}\nreturn answer", f"{SEEN}try:\n    {ASKED}\nexcept Exception:\n    return answer"],
)
def test_a_model_that_is_gone_ends_the_question_though_its_look_is_known(code: str) -> None:
    with pytest.raises(BackboneError, match="no answer"):
        run(code, backbone=LeavingBackbone(1))


def test_a_program_whose_requests_are_refused_again_and_again_asks_for_few_looks() -> None:
    attempt = f"    try:\n        {ASKED}\n    except Exception:\n        pass"
    many = f"{SEEN}for number in range(100):\n{attempt}\nreturn answer"
    backbone = LeavingBackbone()
    execution, _ = run(many, backbone=backbone)
    assert execution.status == "ok"
    # After the 1st, 2nd, 4th, ... 64th, and at the end.
    assert backbone.checks == 8

    with pytest.raises(BackboneError, match="no answer"):
        run(many.replace("100", "3"), backbone=LeavingBackbone(3))


def test_of_many_kinds_of_exceptions_the_first_are_recorded_and_the_others_counted() -> None:
    class Sixty(FailingOcr):
        """Fails in another way each time."""

        def _read(self, image: np.ndarray) -> list[TextRegion]:
            self.count = getattr(self, "count", 0) + 1
            raise type(f"Kind{self.count}", (Exception,), {})("x" * 9000)

    attempt = "    try:\n        run_ocr(extract_frames(video, 1)[0])\n    except Exception:\n        pass"
    many = f"for number in range(60):\n{attempt}\nreturn 'A'"
    execution, _ = run(many, ocr=Sixty(ValueError()))
    assert [record.message[:1] for record in execution.exceptions] == ["x"] * 10
    assert execution.further_exceptions == 50
    assert sum(len(record.traceback) for record in execution.exceptions) < 70_000


def test_what_shows_without_a_program_ends_the_question(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BackboneError, match="cannot serve"):
        run(CAUGHT, question=Question("Which? (refuse)", QUESTION.choices), ocr=FailingOcr(ValueError("no")))
    caught: Any
    with pytest.raises(NativeError, match="ZeroDivisionError: an internal error on purpose") as caught:
        run(CAUGHT, question=Question("Which? (bug)", QUESTION.choices))
    assert caught.value.record.type == "ZeroDivisionError"

    def unreadable(self: Video, times: Sequence[float], **size: Any) -> Any:
        raise VideoError("the file is damaged at 3 s")

    monkeypatch.setattr(Video, "frames", unreadable)
    with pytest.raises(VideoError, match="damaged"):
        run("try:\n    query_yn(extract_frames(video, 1), 'Is it?')\nexcept Exception:\n    return 'A'")


def test_errors_of_the_machine_are_nobodys_failure() -> None:
    full: Callable[[], Exception] = lambda: OSError(28, "No space left on device")  # noqa: E731
    for error in (MemoryError("no room"), RuntimeError("CUDA error: device-side assert triggered"), full()):
        with pytest.raises(type(error)):
            run(CAUGHT, ocr=FailingOcr(error))


def test_the_look_without_a_program_costs_nothing_of_the_programs_budget() -> None:
    one_frame = "try:\n    run_ocr(extract_frames(video, 1)[0])\nexcept Exception:\n    pass\nreturn 'A'"
    execution, _ = run(one_frame, ocr=FailingOcr(ValueError("no")), limits=Limits(frames=1))
    assert [call.fn for call in execution.calls] == ["extract_frames", "run_ocr"]
    assert execution.answer.letter == "A"
