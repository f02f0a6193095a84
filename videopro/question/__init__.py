"""Questions with options, their answers, and extracting the chosen option from a reply."""

from videopro.question import prompts as prompts
from videopro.question.answer_extraction import extract_letter as extract_letter
from videopro.question.answer_extraction import letter_confidence as letter_confidence
from videopro.question.answer_wrappers import said as said
from videopro.question.intervals import Parser as Parser
from videopro.question.intervals import Reading as Reading
from videopro.question.intervals import extract_intervals as extract_intervals
from videopro.question.official_extractors import OFFICIAL_EXTRACTORS as OFFICIAL_EXTRACTORS
from videopro.question.official_extractors import OR as OR
from videopro.question.official_extractors import written_intervals as written_intervals
from videopro.question.official_extractors import written_result as written_result
from videopro.question.own_labels import without_own_labels as without_own_labels
from videopro.question.prompts import NATIVE_PROGRAM as NATIVE_PROGRAM
from videopro.question.question import LETTERS as LETTERS
from videopro.question.question import NO_OPTION as NO_OPTION
from videopro.question.question import Answer as Answer
from videopro.question.question import Question as Question
from videopro.question.question import right_letters as right_letters
from videopro.question.thoughts import is_thinking as is_thinking
from videopro.question.thoughts import spoken as spoken
from videopro.question.thoughts import spoken_part as spoken_part
from videopro.question.thoughts import visible as visible
