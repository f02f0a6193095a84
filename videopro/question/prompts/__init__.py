"""Every prompt that VideoPro sends to a model.

A prompt is the text part of a user turn; the video always comes before it, so that questions about one video
share a prefix. A benchmark's official answer prompt is that benchmark's data, not part of this package.
"""

from videopro.question.prompts.answers import caption as caption
from videopro.question.prompts.answers import count as count
from videopro.question.prompts.answers import direct as direct
from videopro.question.prompts.answers import locate as locate
from videopro.question.prompts.answers import multiple_choice as multiple_choice
from videopro.question.prompts.answers import open_ended as open_ended
from videopro.question.prompts.answers import said_at_frames as said_at_frames
from videopro.question.prompts.answers import summarize as summarize
from videopro.question.prompts.answers import with_context as with_context
from videopro.question.prompts.answers import yes_no as yes_no
from videopro.question.prompts.conversation import Exchange as Exchange
from videopro.question.prompts.conversation import with_conversation as with_conversation
from videopro.question.prompts.programs import EXAMPLES as EXAMPLES
from videopro.question.prompts.programs import NATIVE_PROGRAM as NATIVE_PROGRAM
from videopro.question.prompts.programs import OPEN_EXAMPLES as OPEN_EXAMPLES
from videopro.question.prompts.programs import OPEN_NATIVE_PROGRAM as OPEN_NATIVE_PROGRAM
from videopro.question.prompts.programs import bug_fix as bug_fix
from videopro.question.prompts.programs import functions_block as functions_block
from videopro.question.prompts.programs import native_refinement as native_refinement
from videopro.question.prompts.programs import plan as plan
from videopro.question.prompts.programs import program_refinement as program_refinement
from videopro.question.prompts.programs import question_block as question_block
from videopro.question.prompts.programs import result_line as result_line
