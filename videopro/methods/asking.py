"""One question about one video, for interactive use."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from videopro.backbones import Backbone
from videopro.backbones.wrappers import Meter
from videopro.benchmarks import Item, Protocol
from videopro.errors import Failure, VideoProError
from videopro.methods.base import Method, MethodContext, Observer, answer_each
from videopro.methods.events import last_event
from videopro.question import Question
from videopro.traces import Cost, Result, evidence
from videopro.video import Video


class QuestionFailed(VideoProError):
    """The question has no answer. `failure` gives the reason, `cost` what was spent on it."""

    def __init__(self, failure: Failure, cost: Cost) -> None:
        super().__init__(failure.message)
        self.failure = failure
        self.cost = cost


def answer_one(
    method: Method,
    item: Item,
    video: Video,
    backbone: Backbone,
    protocol: Protocol,
    *,
    seed: int,
    observer: Observer,
) -> Result:
    """Answer one question. A question without an answer has its error in the result. Raises VideoProError for
    what concerns more than this question, and Cancelled."""

    def new_context() -> MethodContext:
        return MethodContext(
            video, backbone, protocol, meter=Meter(), seed=seed, observer=observer, doing=observer.on_wait
        )

    ((_, result),) = answer_each(method, [item], new_context)
    return result


def last_events(result: Result, question: Question, video: Video) -> Iterator[dict[str, Any]]:
    """The events that end a question: each piece of evidence, then the answer or the error."""
    for piece in evidence(result, (video.width, video.height)):
        yield {"type": "evidence", **piece}
    yield last_event(result, question)
