"""What the figures of the pocket world show, and what they do not."""

from __future__ import annotations

from perf import ROOT
from perf.statements.sampling import beside_greedy
from perf.statements.shared import Statements, listed, record, row
from perf.stored import is_right_at_first, traces
from videopro.pocket.teacher.faults import SHARES
from videopro.pocket.teacher.teacher import REFINED_SHARE
from videopro.traces.scoring import percent

TEST, SFT = "docs/results/pocket-test/last.json", "docs/results/pocket-sft"
_CONTEXTS = {"Text read from the frames": "text read from frames", "scenes at the": "counts of scenes"}
"""What the teacher's programs put before what they found, and what that is."""
_SOURCES = ("videopro/pocket/teacher/programs.py", "train/pocket/qa_pairs.py")
_SHIPPED = 1
"""The seed of the planner that ships."""


def repairs() -> tuple[int, int, int, int]:
    """Of the teacher's `videopro` on test: first programs of several steps, those with a fault, questions
    that only the refinement has right, and those of them whose first program had a fault."""
    run = traces("pocket-test", "videopro")
    programs = [trace for trace in run if trace.rounds[0].mode == "program"]
    faulty = {trace.question_id for trace in run if trace.rounds[0].notes["fault"] != "none"}
    repaired = {
        trace.question_id
        for trace in run
        if not is_right_at_first(trace) and trace.final is not None and trace.is_right(trace.final.letter)
    }
    return len(programs), len(faulty), len(repaired), len(repaired & faulty)


def _faults() -> str:
    programs, faulty, repaired, of_faulty = repairs()
    planned = sum(SHARES.values())
    return (
        f"""- The **teacher breaks {planned:.0%} of its first programs on purpose** (of its refinements
            {planned * REFINED_SHARE:.0%}), and refinement mostly repairs those: on test {faulty} of
            {programs} programs had a fault, and so had {of_faulty} of the {repaired} that refinement
            corrected."""
    ).replace("%", " %")


def _answerer() -> str:
    for source in _SOURCES:
        text = (ROOT / source).read_text(encoding="utf-8")
        missing = [context for context in _CONTEXTS if context not in text]
        if missing:
            raise KeyError(f"{source}: has no {missing[0]!r}, and the statement says that it does")
    return (
        f"- The **answerer was trained on the teacher's contexts**: the pocket model has learned to read "
        f"{listed(list(_CONTEXTS.values()))} in the very words in which these programs pass them on."
    )


def _reader() -> str:
    names = ("videopro, reader off", "native")
    off, native = (percent(row("pocket-test/last.json", name)["accuracy"]) for name in names)
    return f"""- The teacher **recognizes the kinds of questions** in this world. With that off
        ("reader off"), programs do no better than a direct answer ({off} and {native} %)."""


def _unseen() -> str:
    test = row("pocket-sft/test.json", "adaptive + refinement")
    other = row("pocket-sft/heldout.json", "adaptive + refinement")
    without, taught, native = (
        percent(row("pocket-sft-unseen/last.json", name)["accuracy"])
        for name in ("without: adaptive + refinement", "with: adaptive + refinement", "native")
    )
    return f"""- The fine-tuned planner **knows its training's words and families**: it is right in
            {percent(test["seeds"][_SHIPPED])} % on test and in {percent(other["seeds"][_SHIPPED])} % of
            the same questions in words that it never saw (three trainings: {percent(test["accuracy"])} and
            {percent(other["accuracy"])}). One that never saw questions about order is right in {without} %
            of them, one that did in {taught}, and a direct answer in {native}."""


def _limits() -> list[str]:
    return [_faults(), _answerer(), _reader(), _unseen(), beside_greedy()]


def _limits_in_short() -> list[str]:
    off, native = (
        percent(row("pocket-test/last.json", name)["accuracy"]) for name in ("videopro, reader off", "native")
    )
    _, _, repaired, of_faulty = repairs()
    other = row("pocket-sft/heldout.json", "adaptive + refinement")
    return [
        f"""- The teacher is a set of rules that recognize each kind of question in this world. Without
            them, its programs are right in {off} % on test: no more than a direct answer ({native} %).""",
        f"""- It puts faults into {sum(SHARES.values()):.0%} of its first programs on purpose. Of the
            {repaired} questions that refinement corrected on test, {of_faulty} had such a
            fault.""".replace("%", " %"),
        f"""- The fine-tuned model knows the wordings of its training: of the same questions in other words it
            answers {percent(other["seeds"][_SHIPPED])} %. The model that answers was trained on text passed
            on in the very words of the teacher's programs.""",
    ]


def _chosen() -> list[str]:
    runs = [record(f"{SFT}/val-videopro-{seed}.json") for seed in range(3)]
    (questions,) = {run["n"] for run in runs}
    shares = [percent(run["accuracy"]) for run in runs]
    here = f"on the first {questions} questions of val, greedy, by the last program"
    if len(set(shares)) == 1:
        how = f"It is seed {_SHIPPED} of three that tie {here} ({shares[0]} % each)."
    else:
        how = f"It is seed {_SHIPPED} of three; {here}, they have {listed(shares)} %."
    return [how]


def _modes() -> list[str]:
    native, steps, chosen = (
        percent(row("pocket-sft/test.json", name)["seeds"][_SHIPPED])
        for name in ("asked for programs", "always several steps", "adaptive")
    )
    return [
        f"""**Choosing the mode gains nothing here.** Adaptive reasoning is ahead of multi-step programs by
            {float(chosen) - float(native):.1f} points ({chosen} and {native} %), but the prompt makes the
            difference: in training, that of multi-step programs stood only before questions that a direct
            answer solves. With its adaptive programs, and multi-step ones only where it chose a direct
            answer ([always several steps](sft.md#accuracy)), the same planner is right in {steps} %."""
    ]


def _routing() -> list[str]:
    def balanced(folder: str, *names: str) -> list[str]:
        return [percent(row(f"{folder}/first.json", name)["mode_balanced_accuracy"]) for name in names]

    before, after = balanced("pocket-grpo", "SFT on 60 questions", "+ GRPO, two rounds (80 steps)")
    few, grpo = balanced("pocket-grpo-shipped", "SFT on 240 questions", "SFT + GRPO")
    return [
        f"""That GRPO teaches a planner to choose its mode **does not hold**: the balanced share of oracle
            modes goes from {before} to {after} % here, where far more plans become well-formed, and from
            {few} to {grpo} % in the trainings of the [shipped pocket-grpo](#the-shipped-pocket-grpo).
            Nor is a better choice worth accuracy by itself ([choosing the
            mode](paper-tables.md#tables-1-and-2-accuracy-and-cost))."""
    ]


STATEMENTS: Statements = {
    ("docs/results/pocket-grpo-shipped/first.json", "what routing gains"): _routing,
    (TEST, "what the figures do not show"): _limits,
    (TEST, "what the figures do not show, in short"): _limits_in_short,
    (f"{SFT}/val-videopro-0.json", "which seed ships"): _chosen,
    (f"{SFT}/test.json", "what choosing the mode is worth"): _modes,
}
