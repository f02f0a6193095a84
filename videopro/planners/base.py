"""What a planner is: whoever writes programs, given a prompt.

Knows prompts' parts, questions and frames. Must not know how a program is run, what came of it beyond the
prompt, benchmarks or answers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from videopro.backbones.base import Visual
from videopro.question import Question

PromptKind = Literal["plan", "plan_program", "bug_fix", "native_refinement", "program_refinement"]
"""What is asked for: a program in a mode of the planner's choice, one of several steps, or a refinement of
one
that failed, or whose answer is unsure after a single look or after several steps."""

PLAN_KINDS: tuple[PromptKind, ...] = ("plan", "plan_program")


@dataclass(frozen=True)
class PlanRequest:
    """Everything that a planner may look at. Neither the right answer nor anything of a benchmark is in
    it.
    """

    kind: PromptKind
    prompt: str
    """The whole text, as `videopro.prompts` makes it."""
    question: Question
    reference: str = ""
    """The API reference of the video's modules."""
    seed: int = 0
    """Fixes what sampling draws; made from the run's seed and the question, so that it tells nothing more."""
    visual: Visual = None
    """The video, for planners that see it."""


@dataclass(frozen=True)
class PlannerReply:
    """A reply, as it was written."""

    text: str
    tokens_in: int = 0
    tokens_out: int = 0
    """0 from a planner without a tokenizer, such as the pocket teacher."""
    calls: int = 0
    """Requests to a model."""
    notes: Mapping[str, str] = field(default_factory=dict)
    """What the planner knows about its reply; goes into the trace and into no prompt."""


class Planner(ABC):
    """Writes programs. Keeps no state between requests: a refinement knows its prompt and nothing else.

    Every method raises BackboneError when a model or server behind it cannot serve the request.
    """

    name: str
    """As the user named it."""
    sees_video: bool = False
    """Whether a request's `visual` is looked at."""
    asks_model: bool = True
    """Whether a reply takes a request to a model; else it costs nothing, and the same request gets the same
    reply."""
    is_fine_tuned: bool = False
    """Whether it was trained on the prompts' form; else prompts carry the API reference and examples."""

    @abstractmethod
    def identity(self) -> dict[str, object]:
        """What a run's key hashes, JSON-able: all that decides what it writes besides the requests."""

    @abstractmethod
    def write(self, requests: Sequence[PlanRequest]) -> list[PlannerReply]:
        """One reply a request, in their order; each depends on its own request alone."""

    def close(self) -> None:
        """Give connections back."""
        return
