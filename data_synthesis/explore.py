"""Explores the questions of a video: native answers, the teacher's programs, their runs, refinements.

Programs run with the executor and the modules of inference, and the backbone answers with any adapter off, as
in inference. Gold answers decide which answers are refined; no prompt shows them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol

from videopro.backbones import Backbone
from videopro.backbones.wrappers import Meter, MeteredBackbone, ThreadMeter, share_backbone
from videopro.benchmarks import Item
from videopro.data_synthesis.questions import MODULES, WITHOUT
from videopro.data_synthesis.rules import NATIVE, PLAN, REFUSED, SAME_AS, refinement_needed, shown_prompt
from videopro.data_synthesis.settings import SynthesisConfig
from videopro.data_synthesis.teacher import Refusal, collect
from videopro.errors import QUESTION_ERRORS, BackboneError, NativeError, VideoProError, unexpected_as
from videopro.executor import Limits, Program
from videopro.methods import video_ref
from videopro.methods.planners import PlannerReply, PlanRequest
from videopro.methods.program import (
    answer_natively,
    cost_of_rounds,
    execute,
    native_round,
    prompt_seed,
    round_from_reply,
    run_parallel,
)
from videopro.modules import ModuleModels, VideoContext, api_reference, available_modules
from videopro.question import prompts, right_letters
from videopro.traces import NO_SUBTITLES, Cost, PromptKind, Result, Round, VideoRef, failed_result
from videopro.video import Subtitles, Video, load_subtitles

# Programs about a video that run in parallel: each waits for the backbone most of its time.
_MOST_PARALLEL = 8


@dataclass
class _QuestionState:
    """A question that is being explored."""

    item: Item
    rounds: list[Round] = field(default_factory=list)
    first_runs: dict[str, int] = field(default_factory=dict)
    """The round that ran a program, by the digest of its canonical form."""
    programs: dict[int, Program] = field(default_factory=dict)
    """The program of each round that has one."""
    capped: bool = False
    """Whether a cap prevented one of its requests."""
    error: VideoProError | None = None
    """One of QUESTION_ERRORS."""

    @property
    def right(self) -> frozenset[str]:
        """The letters that are right."""
        return right_letters(self.item.answer, self.item.question.choices)

    @property
    def open(self) -> bool:
        return self.error is None and not self.capped


class SendsRequests(Protocol):
    """The client of a teacher: `Teacher`, or its counterpart on another machine."""

    def send(self, requests: Sequence[PlanRequest]) -> list[Future[PlannerReply | Refusal]]:
        """Send requests, and return at once. CapReached as the error of a future: no reply, for its cap."""


_Sent = tuple[list[tuple[_QuestionState, PlanRequest, int | None]], list[Future[PlannerReply | Refusal]]]
"""Requests for programs, and their replies to come."""


class Explorer:
    """Explores questions, several videos at a time from several threads.

    `backbone` answers; `models` are the models behind the modules.
    """

    def __init__(
        self, backbone: Backbone, models: ModuleModels, teacher: SendsRequests, config: SynthesisConfig
    ) -> None:
        self._counted = ThreadMeter()
        # One for all threads, so that calls of different videos' programs share batches too.
        self._backbone = MeteredBackbone(share_backbone(backbone, adapter=False), self._counted)
        self._models = models
        self._teacher = teacher
        self._config = config
        self._drops = config.module_drops()

    def explore(self, items: Sequence[Item]) -> Iterator[tuple[Item, Result, VideoRef]]:
        """The result of each question about one video. Questions that a cap cut short are left out.

        Raises RunError when the teacher serves no request, VideoProError for models that cannot be loaded,
        and the machine's errors.
        """
        try:
            with unexpected_as(NativeError):
                video = Video.open(items[0].video, nearest_intact=self._config.nearest_intact)
        except QUESTION_ERRORS as error:
            for item in items:
                yield item, failed_result(error), video_ref(item)
            return
        seen = video_ref(items[0], video)
        # Questions about one video may list different subtitles, or do without different modules; a context
        # has one subtitle file and one set of modules.
        groups: dict[tuple[str, float, str | None], list[Item]] = {}
        for item in items:
            left_out = self._drops.group(item.id)
            groups.setdefault((str(item.subtitles), item.subtitle_offset, left_out), []).append(item)
        for (_, _, left_out), group in groups.items():
            try:
                with unexpected_as(NativeError):
                    listed = self._subtitles(video, group[0])
                    context = self._context(video, listed, left_out)
            except QUESTION_ERRORS as error:
                yield from ((item, failed_result(error), seen) for item in group)
                continue
            states = [_QuestionState(item) for item in group]
            self._explore(states, context)
            lines = listed or context.subtitles
            file = str(group[0].subtitles or "") if self._config.subtitles == "listed" else None
            read = replace(seen, subtitles=file, text_id=lines.id if lines is not None else "")
            yield from ((state.item, _result(state, context), read) for state in states if not state.capped)

    def _subtitles(self, video: Video, item: Item) -> Subtitles | None:
        """Those that the source lists, if the modules get them."""
        if self._config.subtitles == "none" or item.subtitles is None:
            return None
        return load_subtitles(
            item.subtitles,
            duration=video.duration,
            start_offset=item.subtitle_offset,
            track=item.subtitle_track,
        )

    def _context(self, video: Video, subtitles: Subtitles | None, left_out: str | None) -> VideoContext:
        with self._counted.into(Meter()):
            without = () if left_out is None else (left_out,)
            return self._models.context(video, self._backbone, subtitles, without)

    def _explore(self, states: Sequence[_QuestionState], context: VideoContext) -> None:
        reference = api_reference(available_modules(context), context.clip_times)
        count, refined = self._config.effort(states[0].item.video_key)
        # First programs do not depend on the native answers: the teacher writes while the backbone answers.
        plans = self._send(
            (state, self._plan(state.item, number, reference), None)
            for state in states
            for number in range(count)
        )
        self._answer_natively(states, context)
        self._collect(plans)
        self._run(states, context)
        refinements = self._send(
            (state, request, index)
            for state in states
            if state.open
            for index, request in self._refinements(state, reference, refined)
        )
        self._collect(refinements)
        self._run(states, context)

    # ---- requests ------------------------------------------------------------------------------------------

    def _plan(self, item: Item, number: int, reference: str) -> PlanRequest:
        prompt = prompts.plan(item.question, adaptive=False, reference=reference, examples=True)
        return self._request(PLAN, prompt, item, number, reference)

    def _refinements(
        self, state: _QuestionState, reference: str, count: int
    ) -> Iterator[tuple[int, PlanRequest]]:
        for index, round in enumerate(state.rounds):
            kind = refinement_needed(round, state.right, self._config.tau)
            if kind is None:
                continue
            prompt = shown_prompt(kind, state.item.question, round, reference=reference)
            for number in range(count):
                yield index, self._request(kind, prompt, state.item, number, reference)

    def _request(self, kind: PromptKind, prompt: str, item: Item, number: int, reference: str) -> PlanRequest:
        seed = prompt_seed(self._config.seed, kind, number, item.question)
        return PlanRequest(kind, prompt, item.question, reference, seed)

    def _send(self, requests: Iterable[tuple[_QuestionState, PlanRequest, int | None]]) -> _Sent:
        """Ask for programs, each for a question and, for a refinement, the round that it refines."""
        requests = list(requests)
        return requests, self._teacher.send([request for _, request, _ in requests])

    def _collect(self, sent: _Sent) -> None:
        """Wait for programs, and add each as a round that has not run yet. Questions that failed meanwhile
        get none."""
        requests, futures = sent
        replies = collect(futures)
        for (state, request, refines), reply in zip(requests, replies, strict=True):
            # A failed question is recorded with its error: what else it was sent does not matter.
            if state.error is not None:
                continue
            if reply is None:
                state.capped = True
            elif isinstance(reply, Refusal):
                state.rounds.append(Round(request.kind, "", notes={REFUSED: reply.reason}, refines=refines))
            else:
                round, state.programs[len(state.rounds)] = round_from_reply(request, reply, refines=refines)
                state.rounds.append(round)

    # ---- runs ----------------------------------------------------------------------------------------------

    def _answer_natively(self, states: Sequence[_QuestionState], context: VideoContext) -> None:
        def answer(state: _QuestionState) -> None:
            execution = answer_natively(state.item.question, context, thread_meter=self._counted)
            round = native_round("native", state.item.question, execution)
            state.rounds.append(replace(round, notes=_module_notes(context)))

        self._run_parallel([(state, partial(answer, state)) for state in states])

    def _run(self, states: Sequence[_QuestionState], context: VideoContext) -> None:
        """Run every program that has not run yet, each canonical form once per question."""

        def run(state: _QuestionState, index: int, program: Program) -> None:
            execution, _ = execute(
                program,
                state.item.question,
                context,
                limits=Limits(),
                thread_meter=self._counted,
                reasoned=self._config.reasoned_confidence,
            )
            state.rounds[index] = replace(state.rounds[index], execution=execution)

        jobs, repeats = [], []
        for state in states:
            if not state.open:
                continue
            for index, round in enumerate(state.rounds):
                if index == NATIVE or round.execution is not None or REFUSED in round.notes:
                    continue
                program = state.programs[index]
                first = state.first_runs.setdefault(program.digest, index)
                if first == index:
                    jobs.append((state, partial(run, state, index, program)))
                else:
                    repeats.append((state, index, first))
        self._run_parallel(jobs)
        for state, index, first in repeats:
            if state.open:
                _repeat(state.rounds, index, first)

    def _run_parallel(self, jobs: Sequence[tuple[_QuestionState, Callable[[], None]]]) -> None:
        errors = run_parallel(jobs, lambda job: job[1](), _MOST_PARALLEL)
        for (state, _), error in zip(jobs, errors, strict=True):
            if error is not None:
                state.error = error


def _module_notes(context: VideoContext) -> dict[str, str]:
    """How the records describe the modules of a context."""
    names = " ".join(module.name for module in available_modules(context))
    return {MODULES: names, **({WITHOUT: " ".join(context.without)} if context.without else {})}


def _repeat(rounds: list[Round], index: int, first: int) -> None:
    """Give a repeated program the execution of the first one, at no cost."""
    execution = rounds[first].execution
    assert execution is not None
    rounds[index] = replace(
        rounds[index],
        execution=replace(execution, cost=Cost()),
        notes={**rounds[index].notes, SAME_AS: str(first)},
    )


def _result(state: _QuestionState, context: VideoContext) -> Result:
    rounds = tuple(state.rounds)
    plans = [round for round in rounds if round.prompt_kind == PLAN]
    error = state.error
    # Without a single program there is nothing to learn from; as an error it is asked again when wanted.
    if error is None and plans and all(REFUSED in round.notes for round in plans):
        error = BackboneError(f"the teacher returned no text: {plans[0].notes[REFUSED]}")
    if error is not None:
        return failed_result(error, rounds)
    native = rounds[NATIVE].execution
    assert native is not None
    notes = ((NO_SUBTITLES,) if context.subtitles is None else ()) + context.notes
    return Result(rounds, native.answer, native.answer, NATIVE, notes=notes, cost=cost_of_rounds(rounds))
