"""One question in an agent's hands: it asks models, looks at frames, and every step is recorded and paid.

    prediction = session.ask("predict", "llm", predict_prompt(...), schema=Prediction)
    if prediction is None: ...        # unparsed, even after one repair

A structured reply is a JSON object that fits a pydantic schema, perhaps with thoughts and prose around it.
Nothing is guessed: for a reply without one, the model and the trace get the fault. A session holds the
question and never its answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, Field, ValidationError, create_model

from videopro.backbones import Sampling, stored_thoughts
from videopro.backbones.wrappers import Meter
from videopro.errors import BudgetExceeded
from videopro.methods.agents.models import AgentModel, ModelReply, Tool, Turn
from videopro.methods.agents.settings import AgentSettings, Budget, spread
from videopro.methods.base import Observer
from videopro.methods.program import derive_seed
from videopro.modules.calls import frame_refs
from videopro.question import Answer, Question, extract_letter, prompts, spoken
from videopro.storage import InvalidJson, parse_json_at
from videopro.traces import Cost, Segment, Step
from videopro.video import Frame, Subtitles, Video, distinct_frames

SchemaT = TypeVar("SchemaT", bound=BaseModel)

# Mistakes that are named to the model; more would not fit a short repair prompt.
_MISTAKES = 3


class Session:
    """See the module. Used by one thread; the models are shared."""

    def __init__(
        self,
        question: Question,
        video: Video,
        models: Mapping[str, AgentModel],
        settings: AgentSettings,
        *,
        subtitles: Subtitles | None = None,
        seed: int = 0,
        evidence: Sequence[tuple[float, float]] = (),
        observer: Observer | None = None,
        budget: Budget | None = None,
    ) -> None:
        """`models`: by role. `evidence`: the annotated intervals, for ablations with an oracle only. `budget`
        None: from the settings."""
        self.question = question
        self.video = video
        self.models = models
        self.settings = settings
        self.subtitles = subtitles
        self.evidence = tuple(evidence)
        self.budget = budget or Budget(
            *(settings.max_frames, settings.max_tokens, settings.max_steps),
            calls=settings.calls,
            seconds=settings.seconds,
        )
        self.steps: list[Step] = []
        self.notes: list[str] = []
        self.cost = Cost()
        """What all steps cost, without those that were reused."""
        self.seed = seed
        """The run's seed; derive others from it and the question."""
        self.round = 0
        """The agent's round, which its steps are recorded with."""
        self._observer = observer
        self._meter = Meter()

    # ---- frames ----------------------------------------------------------------------------------------

    def frames(self, times: Sequence[float], model: str, *, one_each: bool = False) -> list[Frame]:
        """The frames on display at `times` (s), sorted, at the size of the role `model`: as many as the
        budget and the model allow, spread evenly over the times. What is left out is noted. Each picture once
        or, with `one_each`, one frame for every time. Raises BudgetExceeded, VideoError."""
        allowed = self.admit(times, model)
        size = self.models[model].frame_size(self.video.height, self.video.width, len(allowed))
        with self._meter.stage("decode"):
            frames = self.video.frames(allowed, size=size)
        frames = frames if one_each else distinct_frames(frames)
        self._meter.add(Cost(frames=len(frames)))
        return frames

    def admit(self, times: Sequence[float], model: str) -> list[float]:
        """The times (s), sorted, whose frames `frames` would return; they count as looked at from now on.
        Raises BudgetExceeded."""
        requested = sorted(times)
        limit = self.models[model].frames
        if len(requested) > limit:
            self.note(f"at most {limit} frames a call: the maximum of {model}")
            requested = spread(requested, limit)
        allowed = self.budget.allowed(requested)
        if len(allowed) < len(requested):
            self.note(f"the budget of {self.budget.max_frames} frames left out some")
        return allowed

    def said_at(self, times: Sequence[float]) -> str:
        """The subtitle lines that are shown at some of these times (s), as LongVideoBench shows them with
        frames; "" if there are none."""
        if self.subtitles is None:
            return ""
        return "\n".join(line.text for line in self.subtitles.visible_at(times))

    def note(self, text: str) -> None:
        """Add a note to the result; repeated notes are added once."""
        # Loops meet the same limit in every round.
        if text not in self.notes:
            self.notes.append(text)

    def rounds(self, most: int) -> Iterator[int]:
        """Count up to `most` rounds; the steps of each are recorded with its number."""
        for number in range(most):
            self.round = number
            yield number

    # ---- steps -----------------------------------------------------------------------------------------

    def ask(
        self,
        kind: str,
        model: str,
        prompt: str,
        *,
        schema: type[SchemaT],
        frames: Sequence[Frame] = (),
        segments_of: Callable[[SchemaT | None], Sequence[Segment]] = lambda parsed: (),
    ) -> SchemaT | None:
        """Ask for a structured reply, and once for a repair; None: it could not be parsed. `segments_of`
        gives the step's segments, from the parsed reply. Raises BudgetExceeded, BackboneError."""
        # Where it cannot constrain the decoding, it is left out, and the reply is read alike.
        constraint = schema.model_json_schema()
        reply = self._reply(model, prompt, frames, constraint)
        parsed, faults = _read(reply, schema)
        rejected: tuple[str, ...] = ()
        if parsed is None:
            # Only once: each try costs the whole prompt again.
            first, prompt_again = reply.text, repair_prompt(prompt, reply.text, *faults)
            with suppress(BudgetExceeded):
                reply = self._reply(model, prompt_again, frames, constraint)
                parsed, further = _read(reply, schema)
                rejected, faults = (first,), faults + further
        step = Step(
            kind,
            model,
            self.round,
            prompt,
            frames=frame_refs(frames),
            parsed=None if parsed is None else plain(parsed),
            rejected=rejected,
            faults=faults,
            is_constrained=reply.is_constrained,
            segments=tuple(segments_of(parsed)),
        )
        self._record_reply(step, reply)
        return parsed

    def tell(
        self,
        kind: str,
        model: str,
        prompt: str,
        *,
        frames: Sequence[Frame] = (),
        sampling: Sampling | None = None,
        **fields: Any,
    ) -> str:
        """Ask for a reply in words: a caption, an explanation, an answer to an open question. `sampling`:
        for a reply that other questions reuse, which must not depend on this one; `fields`: the step's other
        fields. Raises BudgetExceeded, BackboneError."""
        reply = self._reply(model, prompt, frames, None, sampling)
        self._record_reply(Step(kind, model, self.round, prompt, frames=frame_refs(frames), **fields), reply)
        return reply.text

    def choose(self, kind: str, model: str, prompt: str, *, frames: Sequence[Frame] = ()) -> Answer:
        """Ask for the letter of an option, by the distribution over the next token (VideoPro's Eq. 2 gives
        the confidence). Raises BudgetExceeded, BackboneError."""
        with self._asking(model):
            answer = self.models[model].choose(self.question, prompt, frames)
        return self._answered(kind, model, prompt, frames, answer)

    def answer(
        self, kind: str, model: str, *, frames: Sequence[Frame] = (), context: str = "", prompt: str = ""
    ) -> Answer:
        """Ask for the answer at once: for a letter, or for words if the question is open. `context`: what
        stands before the question; `prompt`: an agent's own in place of ours. Raises BudgetExceeded,
        BackboneError."""
        question = self.question
        if question.is_open:
            text = prompt or prompts.with_context(context, prompts.open_ended(question.text))
            return Answer(raw=self.tell(kind, model, text, frames=frames))
        text = prompt or prompts.with_context(context, prompts.multiple_choice(question))
        return self.choose(kind, model, text, frames=frames)

    def decide(self, kind: str, model: str, prompt: str, *, frames: Sequence[Frame] = ()) -> Answer:
        """Ask for Yes or No, as `choose` does for a letter. Raises BudgetExceeded, BackboneError."""
        with self._asking(model):
            answer = self.models[model].decide(prompt, frames)
        return self._answered(kind, model, prompt, frames, answer)

    def _answered(
        self, kind: str, model: str, prompt: str, frames: Sequence[Frame], answer: Answer
    ) -> Answer:
        self._count(answer.tokens_in, answer.tokens_out)
        parsed = {"letter": answer.letter, "confidence": answer.confidence}
        step = Step(kind, model, self.round, prompt, frames=frame_refs(frames), raw=answer.raw, parsed=parsed)
        self.record(replace(step, cut_at=answer.cut_at))
        return answer

    def converse(self, kind: str, model: str, turns: Sequence[Turn], tools: Sequence[Tool]) -> ModelReply:
        """Let the model reply to a conversation, perhaps with calls of tools. The step's prompt is the last
        turn. Raises ToolsRefused, BudgetExceeded, BackboneError."""
        sampling = self._sampling()
        with self._asking(model):
            reply = self.models[model].converse(turns, tools, sampling)
        self._count(reply.tokens_in, reply.tokens_out)
        calls = [{"name": call.name, "arguments": call.arguments} for call in reply.calls]
        parsed = {"calls": calls} if calls else None
        self._record_reply(Step(kind, model, self.round, turns[-1].text, parsed=parsed), reply)
        return reply

    def tool(
        self,
        kind: str,
        *,
        args: Mapping[str, Any],
        result: str,
        segments: Sequence[Segment] = (),
        frames: Sequence[Frame] = (),
    ) -> None:
        """Record a tool that asks no model. Call `budget.check()` before the tool runs."""
        step = Step(kind, round=self.round, args=args, result=result, segments=tuple(segments))
        self.record(replace(step, frames=frame_refs(frames)))

    def reuse(self, step: Step) -> None:
        """Record a step that an earlier question about the video has paid."""
        self.budget.check(0)
        # This question has seen them too, though another one paid.
        self.budget.seen.update(round(frame[0], 3) for frame in step.frames)
        self._append(replace(step, round=self.round, is_reused=True))

    def record(self, step: Step) -> None:
        """Append a step with the cost since the last one."""
        spent = self._meter.take()
        self.cost = self.cost + spent
        self._append(replace(step, cost=spent))

    def settle(self) -> Cost:
        """What the question cost in all, also after its last step."""
        self.cost = self.cost + self._meter.take()
        return self.cost

    def _record_reply(self, step: Step, reply: ModelReply) -> None:
        thoughts = stored_thoughts(reply.thoughts)
        self.record(replace(step, raw=reply.text, thoughts=thoughts, cut_at=reply.cut_at))

    def _append(self, step: Step) -> None:
        self.budget.steps += 1
        self.steps.append(step)
        if self._observer is not None:
            self._observer.on_step(step)

    # ---- requests --------------------------------------------------------------------------------------

    def _reply(
        self,
        model: str,
        prompt: str,
        frames: Sequence[Frame],
        schema: Mapping[str, Any] | None,
        sampling: Sampling | None = None,
    ) -> ModelReply:
        sampling = sampling if sampling is not None else self._sampling()
        with self._asking(model):
            reply = self.models[model].reply(prompt, frames, sampling, schema)
        self._count(reply.tokens_in, reply.tokens_out)
        for note in reply.notes:
            self.note(f"{model}: {note}")
        return reply

    @contextmanager
    def _asking(self, model: str) -> Iterator[None]:
        """Around each call of the role `model`. Raises BudgetExceeded."""
        with self.budget.spending(), self._meter.stage(model):
            yield

    def _count(self, tokens_in: int, tokens_out: int) -> None:
        self.budget.tokens += tokens_in + tokens_out
        self._meter.add(Cost(calls=1, tokens_in=tokens_in, tokens_out=tokens_out))

    def _sampling(self) -> Sampling:
        """The sampling of the next reply: the same question gets the same seeds in any order."""
        seed = derive_seed(self.seed, "agent", len(self.steps), self.question.text, self.question.choices)
        return self.settings.sampling(seed)


# ---- structured replies --------------------------------------------------------------------------------


class UnparsedReply(ValueError):
    """A reply that does not fit its schema; the message says why, and names no text of ours."""


def question_text(question: Question) -> str:
    """A question with its options, as agents' prompts show it."""
    return "\n".join(part for part in (question.text, question.lettered_choices()) if part)


def parse_reply(text: str, schema: type[SchemaT]) -> SchemaT:
    """The first JSON object in `text` that fits `schema`; thoughts are left out. Raises UnparsedReply, with
    the mistakes of the first object if none fits."""
    # A thought may hold a draft of the object, which the model then drops.
    text = spoken(text)
    first: str | None = None
    start = text.find("{")
    while start >= 0:
        try:
            value, end = parse_json_at(text, start)
        except InvalidJson as error:
            first = first or f"not valid JSON: {error}"
            end = start + 1
        else:
            try:
                return schema.model_validate(value)
            except ValidationError as error:
                first = first or _mistakes(error)
        start = text.find("{", end)
    raise UnparsedReply(first or "there is no JSON object in the reply")


def plain(value: BaseModel) -> dict[str, Any]:
    """A parsed reply as a trace stores it: a JSON object, also for a schema whose root is a mapping."""
    content = value.model_dump(mode="json", by_alias=True, exclude_none=True)
    return content if isinstance(content, dict) else {"root": content}


def answer_type(question: Question) -> Any:
    """The type of an answer in a schema: a letter of the question, or words if it is open. What a model
    writes around a letter is read: "(B) blue" is B."""
    if question.is_open:
        return Annotated[str, Field(min_length=1)]
    return Annotated[Literal[question.letters], BeforeValidator(lambda value: _letter(value, question))]


def written_answer(text: str, question: Question) -> Answer:
    """The answer in a structured reply, in the words of `answer_type`. It has no confidence."""
    return Answer(None if question.is_open else text, raw=text)


class Numbered(BaseModel):
    """One value for each of some numbered parts, under its number; made by `numbered_type`."""

    def by_number(self) -> dict[int, Any]:
        """The values by the parts' numbers."""
        return {int(str(field.alias)): getattr(self, name) for name, field in type(self).model_fields.items()}


def numbered_type(what: str, numbers: Sequence[int], kind: Any, **limits: Any) -> type[Numbered]:
    """The schema of a `kind` for exactly these numbers: {"7": ..., "8": ...}. `what`: the noun of a part."""
    # A field's name must not be a number, and its alias may.
    fields: dict[str, Any] = {f"{what}_{n}": (kind, Field(alias=str(n), **limits)) for n in numbers}
    return create_model("Scores", __base__=Numbered, **fields)


def number_type(numbers: Sequence[int]) -> Any:
    """The type of one of these numbers in a schema; "3" is 3."""
    return Annotated[Literal[tuple(numbers)], BeforeValidator(_number)]


def _letter(value: Any, question: Question) -> Any:
    letter = extract_letter(value, question) if isinstance(value, str) else None
    return value if letter is None else letter


def _number(value: Any) -> Any:
    # True is 1 to Python.
    if isinstance(value, bool):
        return str(value)
    return int(value) if isinstance(value, str) and value.strip().isdecimal() else value


def _mistakes(error: ValidationError) -> str:
    """What does not fit, in the schema's own words."""
    errors = error.errors(include_url=False, include_input=False, include_context=False)
    named = [
        f"{'.'.join(map(str, each['loc'])) or 'the object'}: {each['msg']}" for each in errors[:_MISTAKES]
    ]
    more = len(errors) - len(named)
    return "; ".join(named) + (f"; and {more} more" if more > 0 else "")


def _read(reply: ModelReply, schema: type[SchemaT]) -> tuple[SchemaT | None, tuple[str, ...]]:
    """What a reply says, or its fault."""
    try:
        return parse_reply(reply.text, schema), ()
    except UnparsedReply as error:
        cut = ""
        if reply.cut_at is not None:
            said = "the reply was cut off" if reply.text.strip() else "it was cut off before it was said"
            cut = f" ({said})"
        return None, (f"{error}{cut}",)


def repair_prompt(prompt: str, reply: str, fault: str) -> str:
    """Ask for the reply again, showing the model its own reply and what is wrong with it."""
    return (
        f"{prompt}\n\nYou replied:\n{reply}\n\nThis reply cannot be used: {fault}.\n"
        "Reply again, with the corrected JSON object only."
    )
