"""Questions with options, their answers, and extracting the chosen option from a reply."""

from videopro.question import prompts as prompts
from videopro.question.answer import Answer
from videopro.question.answer_extraction import extract_letter
from videopro.question.intervals import Parser, Reading, extract_intervals
from videopro.question.invisible import visible
from videopro.question.letter_token import letter_confidence
from videopro.question.official_cg_bench import written_intervals, written_result
from videopro.question.official_extractors import OFFICIAL_EXTRACTORS, OR
from videopro.question.own_labels import without_own_labels
from videopro.question.prompts import NATIVE_PROGRAM
from videopro.question.question import LETTERS, NO_OPTION, Question, right_letters
from videopro.question.thoughts import is_thinking, spoken, spoken_part

__all__ = [
    "prompts",
    "Answer",
    "LETTERS",
    "NATIVE_PROGRAM",
    "NO_OPTION",
    "OFFICIAL_EXTRACTORS",
    "OR",
    "Parser",
    "Question",
    "Reading",
    "extract_intervals",
    "extract_letter",
    "letter_confidence",
    "right_letters",
    "is_thinking",
    "spoken",
    "spoken_part",
    "visible",
    "without_own_labels",
    "written_intervals",
    "written_result",
]
