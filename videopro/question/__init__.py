"""Questions with options, their answers, and extracting the chosen option from a reply."""

from videopro.question import prompts as prompts
from videopro.question.answer import Answer as Answer
from videopro.question.answer_extraction import extract_letter as extract_letter
from videopro.question.answer_wrappers import said as said
from videopro.question.intervals import Parser as Parser, Reading as Reading, extract_intervals as extract_intervals
from videopro.question.invisible import visible as visible
from videopro.question.letter_token import letter_confidence as letter_confidence
from videopro.question.official_cg_bench import written_intervals as written_intervals, written_result as written_result
from videopro.question.official_extractors import OFFICIAL_EXTRACTORS as OFFICIAL_EXTRACTORS, OR as OR
from videopro.question.own_labels import without_own_labels as without_own_labels
from videopro.question.prompts import NATIVE_PROGRAM as NATIVE_PROGRAM
from videopro.question.question import LETTERS as LETTERS, NO_OPTION as NO_OPTION, Question as Question, right_letters as right_letters
from videopro.question.thoughts import is_thinking as is_thinking, spoken as spoken, spoken_part as spoken_part
