"""The rewards of a reply: Eq. 3's three parts, from its program and the execution of that program.

Pure functions: nothing here runs programs, waits or logs.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass

from videopro.executor import ENTRY, Program
from videopro.methods.program import INPUTS
from videopro.modules.calls import MODULES, PLUGIN_MODULES
from videopro.traces import Execution, FinalRule, PromptKind, select_answer
from videopro.traces.scoring import Mode

WEIGHTS = {"accuracy": 0.5, "format": 0.2, "mode_consistency": 0.3}
"""The weights in Eq. 3."""
ANSWER, PROBABILITY = "answer", "probability"
ACCURACIES = (ANSWER, PROBABILITY)
"""What the accuracy reward measures; see `accuracy_reward`."""
EQUATION, STRICT = "equation", "strict"
FORMS = (EQUATION, STRICT)
"""What the format and mode rewards require; see `score`."""
CLAIMS = {"make_result", "finalize_result", "normalize_model_result"}
"""The modules that do not look at the video: they state an answer."""

# Errors with which the executor refuses a program before it runs. No program raises these itself: it cannot
# compile code.
_REFUSED = ("SyntaxError", "IndentationError", "TabError", "SourceLimit")


@dataclass(frozen=True)
class Rewards:
    """The three parts, unweighted. None: the part does not apply to this row, and TRL ignores it there."""

    accuracy: float | None
    """1 where the program's answer is right and calls gave or decided it, or what the call gave the right
    letter (`accuracy_reward`); else 0."""
    format: float | None
    """1 for a well-formed reply, else 0; see `format_faults`."""
    mode_consistency: float | None
    """1 for a reply in the wanted mode (A.3), else 0; None too if the prompt has no wanted mode
    (see `wanted_mode`)."""


LEFT_OUT = Rewards(None, None, None)
"""For a row that could not be run, e.g. because its video cannot be read. TRL ignores such rows."""


Attempt = tuple[Program, Execution]


def score(
    kind: PromptKind,
    right: Collection[str],
    oracle: Mode | None,
    *attempts: Attempt,
    accuracy: str = ANSWER,
    final: FinalRule = "last",
    form: str = EQUATION,
    modules: Collection[str] | None = None,
) -> Rewards:
    """The rewards of a reply, or of an episode (a reply and its refinements).

    `kind`: of the first prompt. `right`: the right letters. `oracle`: the oracle mode (A.3; None: unknown).
    `accuracy`: one of ACCURACIES. `modules`: the names that programs may call; None: this installation's.

    `form`: one of FORMS. By `equation` (Eq. 3, A.3) the format reward judges the reply's form alone, and the
    mode reward is paid for the wanted mode, whatever else the reply is worth; a reply without a program that
    can be read has no mode. By `strict` a reply that ends in a guess is malformed, since it hides its failure
    from refinement, and a malformed reply has no mode.

    An episode earns accuracy for the answer that the rule `final` selects, as in inference; a fallback's
    answer is not the policy's and earns nothing. Every reply must be well-formed to earn format. Mode
    consistency depends on the first reply alone: the policy does not choose the kind of refinement that
    follows, nor its mode."""
    program = attempts[0][0]
    is_strict = form == STRICT
    right_form = [not format_faults(*attempt, is_strict=is_strict, modules=modules) for attempt in attempts]
    target_mode = wanted_mode(kind, oracle)
    has_mode = right_form[0] if is_strict else bool(program.parameters)
    consistent = None if target_mode is None else float(has_mode and program.mode == target_mode)
    # Every turn of the episode was needed.
    selected = select_answer([execution for _, execution in attempts], math.inf, final).selected
    return Rewards(
        accuracy_reward(attempts[selected][1], right, accuracy), float(all(right_form)), consistent
    )


def accuracy_reward(execution: Execution, right: Collection[str], accuracy: str) -> float:
    """The accuracy reward of an answer, from 0 to 1.

    `answer` is Eq. 3's: 1 if the answer is right. `probability` is the share of the letters' probability that
    the answering call gave to the right letters, i.e. the expected accuracy of a sampled answer: a program
    that looks at the wrong place is right by chance one time in four, which `answer` rewards as much as
    evidence. An answer in words has no letters: it earns its confidence if it is right.
    """
    if accuracy == ANSWER:
        return float(is_right(execution, right))
    answer = execution.answer
    if answer.letter is None or answer.confidence <= 0:
        return 0.0
    if not answer.letters:
        return answer.confidence * is_right(execution, right)
    # Normalized: over the whole vocabulary, the letters' probabilities sum to less than 1.
    return sum(answer.letters.get(letter, 0.0) for letter in right) / sum(answer.letters.values())


def is_right(execution: Execution, right: Collection[str]) -> bool:
    """Whether the answer is right and calls gave or decided it. A letter that the program states itself is
    not based on the video and is right by chance (R1 to R4 refuse it too)."""
    return execution.answer.letter in right and execution.answer.confidence > 0


def is_guess(execution: Execution) -> bool:
    """Whether the program gave an answer that no call gave or decided."""
    return execution.answer.letter is not None and execution.answer.confidence <= 0


def format_faults(
    program: Program,
    execution: Execution,
    *,
    is_strict: bool = False,
    modules: Collection[str] | None = None,
) -> tuple[str, ...]:
    """What is malformed in a reply; empty if it earns the format reward.

    A well-formed reply has planning and code in their tags, valid Python, one `execute_command` that can be
    called with the available inputs, no access outside the program, and calls of modules that exist, at least
    one of which looks at the video. A program that failed while it ran is well-formed; one that the executor
    refused is not. Nor, if `is_strict`, is one that ended in a guess.
    """
    faults = list(program.faults)
    if program.parameters:
        faults += _signature(program)
        known = {**MODULES, **PLUGIN_MODULES} if modules is None else modules
        unknown = [name for name in program.calls if name not in known]
        faults += [f"It calls {name}, which does not exist." for name in unknown]
        if not unknown and set(program.calls) <= CLAIMS:
            faults.append("It looks at nothing: it calls no module.")
    if execution.error is not None and execution.error.type in _REFUSED:
        faults.append(f"The executor refuses it: {execution.error.message}")
    if is_strict and is_guess(execution):
        faults.append("Its answer came from no query.")
    return tuple(dict.fromkeys(faults))


def _signature(program: Program) -> list[str]:
    """Why the executor cannot call the function. Planners are asked for `(video, question)`, the release uses
    `(video_path, question, choices, duration)`, and anything in between is accepted."""
    # Planners with other prompts may take other inputs, which nothing provides.
    faults = []
    absent = [name for name in program.required if name not in INPUTS]
    if absent:
        faults.append(f"{ENTRY} asks for {', '.join(absent)}; there are {', '.join(INPUTS)}.")
    elif not {"video", "video_path"} & set(program.parameters):
        faults.append(f"{ENTRY} takes no video.")
    return faults


def wanted_mode(kind: PromptKind, oracle: Mode | None) -> Mode | None:
    """The mode that earns the mode reward; None: any, and the row is left out of that reward.

    A.3 defines m* for the adaptive prompt, which leaves the choice to the planner ("plan"): the oracle mode.
    The paper's GRPO data holds refinement prompts too, about which it says nothing. Here:

    - native_refinement: several steps, for either oracle mode. The prompt asks for more than the one look
      that it shows, and the same look again would give the same unsure answer.
    - bug_fix, program_refinement: several steps where the oracle is "program", since one look is known to be
      wrong or unsure there and returning to it fixes nothing. Where the oracle is "native", one look is
      right and a fixed program may be as right: the prompt asks for an answer, not for a choice of mode, so
      neither is rewarded. (R3 takes both as targets; R4 knows programs only, which is not a reason
      to punish an answer that is known to be right.)

    A row whose oracle mode is unknown gets no mode reward, as all rows of the paper's release, unless it asks
    for several steps in so many words (plan_program).

    None is not the same as 0: all replies to the prompt are left out of this reward, and the logged mean is
    over the other rows. TRL adds up the weighted rewards that are left (here 0.5 and 0.2) without scaling
    them up; with `scale_rewards: group`, its default, a group's advantages do not depend on that.
    """
    if kind == "plan_program":
        return "program"
    if kind == "plan" or oracle is None:
        return oracle
    if kind == "native_refinement":
        return "program"
    return "program" if oracle == "program" else None
