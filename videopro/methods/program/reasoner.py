"""Adaptive reasoning and self-refinement (sections 3.4, 3.5): plan, run, refine what failed or is unsure.

Questions about one video are reasoned about together: their programs are requested in one batch and run in
parallel, and their module calls share batches on the backbone. Nothing here sees the correct answers.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

from videopro.backbones import Visual
from videopro.backbones.wrappers import QuestionBudget, ThreadMeter
from videopro.cli import check_least
from videopro.errors import (
    QUESTION_ERRORS,
    BudgetExceeded,
    ConfigError,
    NativeError,
    UnexpectedError,
    VideoProError,
    unexpected_as,
)
from videopro.executor import Limits, Program
from videopro.methods.base import Observer
from videopro.methods.planners import Planner, PlannerReply, PlanRequest, PromptFile
from videopro.methods.program.deciding import REASONED
from videopro.methods.program.execution import answer_natively, answer_status, execute, run_parallel
from videopro.methods.program.rounds import (
    RefinementShows,
    build_refinement,
    cost_of_rounds,
    native_round,
    prompt_seed,
    round_from_reply,
)
from videopro.modules import VideoContext, available_modules, reference_text
from videopro.question import Question, prompts
from videopro.traces import (
    FALLBACK,
    NO_SUBTITLES,
    PLAN_KINDS,
    AnswerRule,
    Execution,
    PromptKind,
    ReasonedRule,
    ReferenceForm,
    Result,
    Round,
    Selection,
    failed_result,
    is_confident,
    select_answer,
)


@dataclass(frozen=True)
class ReasoningSettings:
    """Settings of reasoning about a question. Raises ConfigError for invalid ones."""

    adaptive: bool = True
    """Whether the planner may choose native mode; otherwise it is asked for a program of several steps."""
    tau: float = 0.75
    """An answer with confidence c is confident if c >= tau (section 4)."""
    max_rounds: int = 1
    """Maximum number of refinements."""
    refine_below: float | None = None
    """Answers below this confidence are refined too. These refinements are stored for reports at other
    thresholds and do not change this run's answer. None: `tau`."""
    rule: AnswerRule = field(default_factory=AnswerRule)
    """Which answer is final, and the fallback if no program answered."""
    shows: RefinementShows = "program"
    """Content of the prompt to refine an unsure answer: the program only, as in the paper (Figs. 12 and 13),
    also its result, or its result and log."""
    max_parallel: int = 8
    """Maximum programs running in parallel."""
    reasoned: ReasonedRule = REASONED
    """How to compute the confidence of a letter that no call returned directly."""
    calls: int | None = None
    """Maximum calls of models for a question; None: no limit."""
    seconds: float | None = None
    """Maximum seconds for a question. The first call is then a direct answer, so that there is one whenever
    the time is over. None: no limit."""

    def __post_init__(self) -> None:
        if not 0 <= self.tau <= 1:
            raise ConfigError(f"tau is {self.tau}; it must be from 0 to 1")
        check_least(self, 0, "max_rounds")
        if self.refine_below is not None and not self.tau <= self.refine_below <= 1:
            raise ConfigError(f"refine_below is {self.refine_below}; it must be from tau ({self.tau}) to 1")
        check_least(self, 1, "max_parallel")

    @property
    def stored_below(self) -> float:
        """The confidence below which answers are refined, for this threshold or another."""
        return self.tau if self.refine_below is None else self.refine_below


@dataclass
class _Reasoning:
    """A question in progress."""

    question: Question
    budget: QuestionBudget
    rounds: list[Round] = field(default_factory=list)
    program: Program | None = None
    """The latest program."""
    log: str = ""
    error: VideoProError | None = None
    direct: Round | None = None
    """What counts if no program gives an answer."""
    spent: str = ""
    """Why no further program is written."""

    @property
    def executions(self) -> list[Execution]:
        return [round.execution for round in self.rounds if round.execution is not None]


class Reasoner:
    """Reasons about the questions of one video, that of `context`.

    `planner` writes the programs, and is shown `visual` if it accepts videos, with `stand_ins` for damaged
    frames. `controls`: as in `MethodContext`. `thread_meter` is the meter of the context's backbone.
    `prompt_file`: the user's prompts in place of ours. `reference`: what prompts say of the modules; None:
    as the planner was trained, and all if it was not. With the same `seed` a question gets the same
    samples, whichever questions are reasoned about together with it.
    """

    def __init__(
        self,
        planner: Planner,
        settings: ReasoningSettings,
        context: VideoContext,
        *,
        thread_meter: ThreadMeter,
        visual: Visual = None,
        stand_ins: tuple[tuple[float, float], ...] = (),
        prompt_file: PromptFile | None = None,
        reference: ReferenceForm | None = None,
        limits: Limits | None = None,
        seed: int = 0,
        observer: Observer | None = None,
        controls: bool = False,
    ) -> None:
        self._planner = planner
        self._settings = settings
        self._context = context
        self._thread_meter = thread_meter
        self._visual = visual if planner.sees_video else None
        self._stand_ins = stand_ins
        self._prompt_file = prompt_file
        if reference is None:
            is_trained = planner.is_fine_tuned and prompt_file is None
            reference = planner.reference if is_trained else "full"
        self._reference_form = reference
        self._limits = limits if limits is not None else Limits()
        self._seed = seed
        self._observer = observer
        self._controls = controls

    def reason(self, questions: Sequence[Question], began: float | None = None) -> list[Result]:
        """The result of each question, in order. `began`: when they did, on the monotonic clock; None: now.
        Raises VideoProError for an error that concerns the whole run and not a single question, and the
        machine's errors."""
        calls, seconds = self._settings.calls, self._settings.seconds
        states = [_Reasoning(each, QuestionBudget(calls, seconds, began, each.choices)) for each in questions]
        if seconds is not None:
            self._answer_directly(states)
        self._round([state for state in states if state.error is None], self._plan)
        below = self._settings.stored_below
        for _ in range(self._settings.max_rounds):
            unsure = [
                state
                for state in states
                if state.error is None and not state.spent and not is_confident(state.executions[-1], below)
            ]
            if not unsure:
                break
            self._round(unsure, self._refinement)
        return [self._finished(state) for state in states]

    # ---- one round: write and run --------------------------------------------------------------------------

    def _round(
        self, states: Sequence[_Reasoning], ask: Callable[[_Reasoning], tuple[PromptKind, str]]
    ) -> None:
        states = [state for state in states if self._may_plan(state)]
        if not states:
            return
        requests = []
        for state in states:
            kind, prompt = ask(state)
            seed = prompt_seed(self._seed, kind, len(state.rounds), state.question)
            reference = self._reference(state)
            requests.append(PlanRequest(kind, prompt, state.question, reference, seed, self._visual))
        self._write(states, requests)
        self._run([state for state in states if state.error is None and not state.spent])

    def _may_plan(self, state: _Reasoning) -> bool:
        try:
            state.budget.check(int(self._planner.asks_model))
        except BudgetExceeded as exceeded:
            state.spent = str(exceeded)
        return not state.spent

    def _write(self, states: Sequence[_Reasoning], requests: Sequence[PlanRequest]) -> None:
        if self._observer is not None:
            self._observer.on_wait("planning")
        began = time.perf_counter()
        replies: list[PlannerReply | VideoProError | BudgetExceeded] = []
        calls = int(self._planner.asks_model)
        try:
            with unexpected_as(), ExitStack() as budgets:
                for state in states:
                    budgets.enter_context(state.budget.spending(calls))
                replies += self._planner.write(requests)
        except (*QUESTION_ERRORS, BudgetExceeded):
            # One bad request fails the whole batch; sent alone, only that one fails.
            for state, request in zip(states, requests, strict=True):
                try:
                    with unexpected_as(_unforeseen(request.kind)), state.budget.spending(calls):
                        replies += self._planner.write([request])
                except QUESTION_ERRORS as error:
                    replies.append(error)
                except BudgetExceeded as exceeded:
                    replies.append(exceeded)
        seconds = (time.perf_counter() - began) / len(requests)
        for state, request, reply in zip(states, requests, replies, strict=True):
            if isinstance(reply, VideoProError):
                state.error = reply
                continue
            if isinstance(reply, BudgetExceeded):
                state.spent = str(reply)
                continue
            round, state.program = round_from_reply(request, reply, seconds=seconds)
            round = replace(round, stand_ins=self._stand_ins)
            state.rounds.append(round)
            if self._observer is not None:
                self._observer.on_reply(round)

    def _run(self, states: Sequence[_Reasoning]) -> None:
        def run_program(state: _Reasoning) -> Execution:
            assert state.program is not None
            execution, state.log = execute(
                state.program,
                state.question,
                self._context,
                limits=self._limits,
                thread_meter=self._thread_meter,
                observer=self._observer,
                reasoned=self._settings.reasoned,
                budget=state.budget,
                controlled=self._controls,
            )
            return execution

        for state, execution in self._run_parallel(states, run_program):
            state.rounds[-1] = replace(state.rounds[-1], execution=execution)
            if execution.status == "ok":
                state.budget.keeps_one = False

    def _answer_directly(self, states: Sequence[_Reasoning]) -> None:
        def natively(state: _Reasoning) -> Execution:
            return answer_natively(
                state.question,
                self._context,
                thread_meter=self._thread_meter,
                # Asked for first, it may not be the answer that counts: it is in the trace if it is.
                observer=self._observer if self._settings.seconds is None else None,
                budget=state.budget,
            )

        for state, direct in self._run_parallel(states, natively):
            state.direct = native_round(FALLBACK, state.question, direct)
            state.budget.keeps_one = False

    def _run_parallel(
        self, states: Sequence[_Reasoning], work: Callable[[_Reasoning], Execution]
    ) -> list[tuple[_Reasoning, Execution]]:
        """The states whose work succeeded, with their executions. Executions that ran in parallel share the
        wall time in proportion to their own times, so that a run's sum is the run's time."""
        began = time.perf_counter()
        done: list[tuple[_Reasoning, Execution]] = []
        results = run_parallel(states, work, self._settings.max_parallel)
        for state, result in zip(states, results, strict=True):
            if isinstance(result, VideoProError):
                state.error = result
            else:
                done.append((state, result))
        wall = time.perf_counter() - began
        spent = sum(execution.cost.seconds for _, execution in done)
        factor = min(1.0, wall / spent) if spent > 0 else 1.0
        return [(state, replace(execution, cost=execution.cost.scaled(factor))) for state, execution in done]

    # ---- prompts -------------------------------------------------------------------------------------------

    def _reference(self, state: _Reasoning) -> str:
        modules = available_modules(self._context, is_open=state.question.is_open)
        return reference_text(self._reference_form, modules, self._context.clip_times)

    def _plan(self, state: _Reasoning) -> tuple[PromptKind, str]:
        adaptive, reference = self._settings.adaptive, self._reference(state)
        kind: PromptKind = "plan" if adaptive else "plan_program"
        if self._prompt_file is not None:
            return kind, self._prompt_file.fill(kind, state.question, reference=reference)
        examples = not self._planner.is_fine_tuned
        return kind, prompts.plan(state.question, adaptive=adaptive, reference=reference, examples=examples)

    def _refinement(self, state: _Reasoning) -> tuple[PromptKind, str]:
        assert state.program is not None
        return build_refinement(
            state.question,
            state.program,
            state.executions[-1],
            state.log,
            shows=self._settings.shows,
            reference=self._reference(state),
            file=self._prompt_file,
        )

    # ---- results -------------------------------------------------------------------------------------------

    def _finished(self, state: _Reasoning) -> Result:
        if state.error is not None:
            return _failed(state)
        executions, extra = state.executions, [state.direct] if state.direct is not None else []
        tau, rule = self._settings.tau, self._settings.rule
        selection = select_answer(executions, tau, rule.final) if executions else Selection(0, 0)
        selected = selection.selected
        if not executions or (rule.fallback == "native" and self._is_unanswered(executions)):
            answer = state.budget.answer
            if state.direct is None and state.budget.is_spent and answer is not None:
                # The program's last call named an option, and no call is left.
                execution = Execution(answer_status(answer, state.question), answer)
                state.direct = Round(FALLBACK, answer.raw, execution=execution, mode="native")
            elif state.direct is None:
                self._answer_directly([state])
            if state.direct is None:
                return _failed(state)
            state.rounds.append(state.direct)
            extra = []
            if not executions or executions[selected].status != "ok":
                selected = len(state.rounds) - 1
        return Result(
            tuple(state.rounds),
            state.executions[0].answer,
            state.executions[selected].answer,
            selected,
            selection.refined,
            notes=(
                *((NO_SUBTITLES,) if self._context.subtitles is None else ()),
                *self._context.notes,
                *((state.spent,) if state.spent else ()),
            ),
            cost=cost_of_rounds([*state.rounds, *extra]),
        )

    def _is_unanswered(self, executions: Sequence[Execution]) -> bool:
        """Whether the programs leave the question without an answer, at this run's threshold or at any for
        which refinements are stored, because reports at other thresholds need the fallback too."""
        settings, final = self._settings, self._settings.rule.final
        first = select_answer(executions, settings.tau, final).refined
        last = select_answer(executions, settings.stored_below, final).refined
        return any(
            executions[select_answer(executions[: end + 1], math.inf, final).selected].status != "ok"
            for end in range(first, last + 1)
        )


def _unforeseen(kind: PromptKind) -> type[UnexpectedError]:
    """What an exception that nobody foresaw about a request to the planner is. The first prompt and the video
    are ours, so no program caused it. A refinement's prompt holds the program and its log: there a planner
    could write what no tokenizer takes, and remove its question."""
    return NativeError if kind in PLAN_KINDS else UnexpectedError


def _failed(state: _Reasoning) -> Result:
    assert state.error is not None
    return replace(failed_result(state.error, tuple(state.rounds)), cost=cost_of_rounds(state.rounds))
