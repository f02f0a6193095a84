"""Every prompt that VideoPro sends to a model.

A prompt is the text part of a user turn; the video always comes before it, so that questions about one video
share a prefix. A benchmark's official answer prompt is that benchmark's data, not part of this package.
"""

from videopro.question.prompts.answers import (
    caption,
    count,
    direct,
    locate,
    multiple_choice,
    open_ended,
    said_at_frames,
    summarize,
    with_context,
    yes_no,
)
from videopro.question.prompts.conversation import Exchange, with_conversation
from videopro.question.prompts.programs import (
    EXAMPLES,
    NATIVE_PROGRAM,
    OPEN_EXAMPLES,
    OPEN_NATIVE_PROGRAM,
    bug_fix,
    functions_block,
    native_refinement,
    plan,
    program_refinement,
    question_block,
    result_line,
)

__all__ = [
    "EXAMPLES",
    "Exchange",
    "NATIVE_PROGRAM",
    "OPEN_EXAMPLES",
    "OPEN_NATIVE_PROGRAM",
    "bug_fix",
    "caption",
    "count",
    "direct",
    "functions_block",
    "locate",
    "multiple_choice",
    "native_refinement",
    "open_ended",
    "plan",
    "program_refinement",
    "question_block",
    "result_line",
    "summarize",
    "said_at_frames",
    "with_context",
    "with_conversation",
    "yes_no",
]
