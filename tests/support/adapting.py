"""What a method makes of a request, without a command around it."""

from collections.abc import Mapping
from typing import Any

from videopro.benchmarks import Protocol
from videopro.benchmarks.base import ROBUST
from videopro.methods import Adaptation, Questions, RunRequest, create


def adapted(
    method: str,
    options: Mapping[str, Any] | None = None,
    *,
    model: str = "m",
    backbone: Mapping[str, Any] | None = None,
    protocol: Protocol | None = None,
    open_questions: int = 0,
) -> Adaptation:
    """The adaptation of a run of these options, settings of the model and questions."""
    questions = Questions(protocol or Protocol(ROBUST), open=open_questions)
    request = RunRequest(method, options or {}, model, backbone or {}, lambda: questions, recorded={})
    return create(method, request.options).adapt(request)
