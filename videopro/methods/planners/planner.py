"""The interface of planners, which write programs for a prompt."""

from __future__ import annotations

import hashlib
import textwrap
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar, Self

from videopro.backbones import Backbone, GenerateRequest, Generation, Sampling, Visual, reply_notes
from videopro.errors import BackboneError, ConfigError, reading_file, unexpected_as
from videopro.executor import parse_program
from videopro.question import Question
from videopro.traces import PromptKind, ReferenceForm

PLAN_SAMPLING = Sampling(max_new_tokens=1024)
"""How programs are written unless a setting says otherwise: greedily. One token of chance breaks a program of
a small planner (docs/results/planners.md has the figures of both)."""

PAPER_TEMPERATURE = 0.7
"""The paper's temperature for programs (section 4)."""


@dataclass(frozen=True)
class PlanRequest:
    """Everything that a planner may use. It contains neither the gold answer nor other benchmark fields."""

    kind: PromptKind
    prompt: str
    """The whole text, as `videopro.question.prompts` makes it."""
    question: Question
    api_reference: str = ""
    """The API reference of the video's modules."""
    seed: int = 0
    """The seed of sampling. Derived only from the run's seed, the prompt's kind and number, and the question,
    so that it reveals nothing else."""
    visual: Visual = None
    """The video, for planners that see it."""


@dataclass(frozen=True)
class PlannerReply:
    """A planner's reply and what it cost."""

    text: str
    """The whole reply, without the model's thoughts."""
    tokens_in: int = 0
    tokens_out: int = 0
    """0 for a planner without a tokenizer, such as one without a model."""
    calls: int = 0
    """Requests to a model."""
    notes: Mapping[str, str] = field(default_factory=dict)
    """What the planner notes about its reply, such as that it was cut off; written to the trace, never to a
    prompt."""


class EmptyReply(BackboneError):
    """A reply without text. Its tokens still count."""

    def __init__(self, message: str, tokens_in: int, tokens_out: int) -> None:
        super().__init__(message)
        self.tokens_in = tokens_in
        self.tokens_out = tokens_out


class Planner(ABC):
    """Writes programs. Keeps no state between requests: a refinement depends on its own request only.

    Every method raises BackboneError when the model or server behind it cannot serve the request.
    """

    name: str
    """The planner as the user named it."""
    sees_video: bool = False
    """Whether it uses a request's `visual`."""
    backbone: Backbone | None = None
    """The model that sees the video, for which a request's `visual` is made; None: the run's own."""
    asks_model: bool = True
    """Whether a reply requires a request to a model. Otherwise it is free, and the same request always gets
    the same reply."""
    prompts: Mapping[str, str] = MappingProxyType({})
    """The custom prompts that it was trained on, as recorded; empty: the default prompts."""
    reference: ReferenceForm = "none"
    """How its training prompts describe the modules, as recorded."""
    is_fine_tuned: bool = False
    """Whether it was trained on prompts without examples, and with the reference that it records. Otherwise
    prompts include the whole API reference and examples."""

    variants: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """Of a plug-in's planner, what may follow its name, as NAME:VARIANT, and what each is."""
    plans_open_questions: ClassVar[bool] = True
    """Whether it can write programs for open-ended questions."""
    reads_any_prompt: ClassVar[bool] = True
    """Whether it accepts custom prompts, and prompts without the whole reference."""

    @classmethod
    def named(cls, variant: str) -> Self:
        """A plug-in's planner as a setting names it; `variant`: what follows the name. Raises ConfigError."""
        if variant:
            raise ConfigError(f"planner {cls.name!r} has no variant {variant!r}; leave it out")
        return cls()

    @abstractmethod
    def identity(self) -> dict[str, object]:
        """JSON-serializable facts for a run's key: everything that a reply depends on, except the request."""

    @abstractmethod
    def write(self, requests: Sequence[PlanRequest]) -> list[PlannerReply]:
        """One reply for each request, in the order of the requests; each depends on its own request only.
        Raises UnexpectedError for an exception about a reply; one about a request is raised unchanged."""

    def close(self) -> None:
        """Close connections."""
        return


def sampling_identity(sampling: Sampling) -> dict[str, object]:
    """A planner's sampling settings as its `identity` names them; the seed is each request's own."""
    return {
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "max_new_tokens": sampling.max_new_tokens,
    }


class BackbonePlanner(Planner):
    """A backbone that sees the video and writes programs (section 3.4)."""

    name = "self"
    sees_video = True

    def __init__(
        self,
        backbone: Backbone,
        *,
        is_fine_tuned: bool,
        sampling: Sampling = PLAN_SAMPLING,
    ) -> None:
        """`backbone` is used unchanged: its adapter is not switched on or off. `sampling`: its seed is not
        used, because each request has its own."""
        self.is_fine_tuned = is_fine_tuned
        self._backbone = backbone
        self._sampling = sampling

    def identity(self) -> dict[str, object]:
        return {"planner": "self", **sampling_identity(self._sampling)}

    def write(self, requests: Sequence[PlanRequest]) -> list[PlannerReply]:
        # Each request has its own seed, so that a reply does not depend on the others of its batch.
        replies = self._backbone.generate_batch(
            [GenerateRequest(request.visual, request.prompt, request.seed) for request in requests],
            self._sampling,
        )
        with unexpected_as():
            return [self._read(reply) for reply in replies]

    def _read(self, reply: Generation) -> PlannerReply:
        # A program that was cut off fails; the note says why.
        cut_at = self._sampling.max_new_tokens if reply.finish == "length" else None
        return PlannerReply(
            reply.text, reply.tokens_in, reply.tokens_out, 1, reply_notes(reply.thoughts, cut_at)
        )


FILE = "file:"


class FilePlanner(Planner):
    """Writes the same program for every question, and nothing else: it cannot refine."""

    asks_model = False
    is_fine_tuned = True  # So the prompt, which nobody reads, is the short one.

    def __init__(self, spec: str, program: str) -> None:
        """`program`: the text of the file, as `read_program` returns it."""
        self.name = spec
        self._program = program

    def identity(self) -> dict[str, object]:
        return {"planner": "file", "program": program_digest(self._program)}

    def write(self, requests: Sequence[PlanRequest]) -> list[PlannerReply]:
        return [PlannerReply(_as_reply(self._program)) for _ in requests]


def read_program(spec: str) -> str:
    """The text of the program that `file:PROGRAM.py` names. Raises ConfigError for a file that cannot be
    read, is not Python, or would not be run: without `execute_command`, or with a forbidden import."""
    path = Path(spec.removeprefix(FILE)).expanduser()
    with reading_file(f"planner {spec!r}:", "pass the path of a Python file in UTF-8", ConfigError):
        text = path.read_text(encoding="utf-8-sig")
    program = parse_program(_as_reply(text))
    # The file goes the way of a model's reply, in which these end a program or are taken for its beginning.
    if program.code != textwrap.dedent(text).strip("\n").rstrip():
        raise ConfigError(
            f"planner {spec!r}: it contains markers of the parts of a reply (a tag such as <code> or "
            "<think>, or ```); remove them"
        )
    if program.faults:
        raise ConfigError(
            f"planner {spec!r}: would not run: {' '.join(program.faults)} docs/reference/modules.md lists "
            "what a program may call and import"
        )
    return text


def program_digest(program: str) -> str:
    """What a run's key has of a program: the SHA-256 of its text, in hexadecimal."""
    return hashlib.sha256(program.encode()).hexdigest()


def recorded_file(spec: str) -> str:
    """The spec as runs record it: the file's location changes no answer."""
    return f"{FILE}{Path(spec.removeprefix(FILE)).name}"


def _as_reply(program: str) -> str:
    return f"<planning>\nThe user's own program.\n</planning>\n<code>\n{program}\n</code>"
