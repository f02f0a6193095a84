"""The prompts of LVAgent and the schema of its scores, in our words (the counterparts of its Table 9)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from videopro.methods.agents import Numbered, numbered_type, question_text
from videopro.question import Answer, Question, prompts
from videopro.video import Frame


@dataclass(eq=False)
class Member:
    """An agent in the discussion, and what it says to the others. Compared by identity: frames hold arrays,
    which cannot be compared."""

    number: int
    """From 1, as prompts name it; ties are broken in this order."""
    role: str
    frames: list[Frame] = field(default_factory=list)
    """What it looked at for its latest answer."""
    answer: Answer | None = None
    """Its latest answer, perhaps without a letter; None before the first."""
    reason: str = ""
    score: int = 0
    """The sum of the scores that it got in the latest reflection; 0 if none could be read."""

    @property
    def letter(self) -> str | None:
        """The letter of its latest answer."""
        return None if self.answer is None else self.answer.letter


def scores_of(numbers: Sequence[int]) -> type[Numbered]:
    """The schema {"1": 7, "2": 3} with exactly these agents, 1 to 10."""
    return numbered_type("agent", numbers, int, ge=1, le=10)


def whole_prompt(question: Question, context: str) -> str:
    """Ask whether the whole video has to be seen."""
    text = (
        f"{question_text(question)}\nThese are a few frames of a video. Is all of it needed for the answer?"
    )
    return prompts.yes_no(prompts.with_context(context, text))


def key_prompt(question: Question, context: str, limit: int) -> str:
    """Ask what to look for in the video."""
    text = (
        f"{question_text(question)}\nThese are a few frames of a video. Name in at most {limit} words what "
        "to look for in it to answer."
    )
    return prompts.with_context(context, text)


def reason_prompt(question: Question, letter: str | None) -> str:
    """Ask an agent why it gave its answer."""
    option = "no option" if letter is None else f"{letter}. {question.choice(letter)}"
    return (
        f"{question_text(question)}\nYour answer was {option}\n"
        "Say in one sentence what in the frames shows it."
    )


def scores_prompt(question: Question, opinions: Sequence[Member]) -> str:
    """Ask an agent to score all answers by their reasons."""
    opinion_lines = "\n".join(_opinion(question, opinion) for opinion in opinions)
    form = ", ".join(f'"{opinion.number}": 5' for opinion in opinions)
    return (
        f"{question_text(question)}\nThe answers and their reasons:\n{opinion_lines}\n"
        f"Give each a score from 1 (not right) to 10 (right). Reply with JSON only, as in {{{form}}}"
    )


def history_prompt(
    question: Question,
    opinions: Sequence[Member],
    has_scores: bool,
    removed: Member | None,
) -> str:
    """What the discussion has come to, for the next round. `has_scores`: whether any
    could be read."""
    lines = []
    for opinion in opinions:
        if opinion is not removed:
            score = f", score {opinion.score}" if has_scores else ""
            lines.append(f"{_opinion(question, opinion)}{score}")
    if removed is not None:
        lines.append(f"{_opinion(question, removed)}, left out")
    return "The answers before:\n" + "\n".join(lines)


def _opinion(question: Question, opinion: Member) -> str:
    option = "no option" if opinion.letter is None else f"{opinion.letter}. {question.choice(opinion.letter)}"
    return f"{opinion.number}: {option}{f', {opinion.reason}' if opinion.reason else ''}"
