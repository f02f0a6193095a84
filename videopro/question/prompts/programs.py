"""Prompts for writing a program and for refining one (the counterparts of the paper's Figs. 8 to 13)."""

from videopro.question.question import Question

NATIVE_PROGRAM = "def execute_command(video, question):\n    return query_native(video, question, choices)"
"""The program that answers in a single look."""
OPEN_NATIVE_PROGRAM = "def execute_command(video, question):\n    return query_native(video, question)"
"""The same for an open question."""

_FORM = """<planning>
{planning}
</planning>
<code>
def execute_command(video, question):
    ...
    return answer
</code>
"""
_EITHER = (
    "Write in a few words if one glance at the whole video is enough for an answer, and your plan.\n"
    "When one glance is enough: one call of query_native and no other.\n"
    "When not: first find the frames or lines that show the answer, then ask about them."
)
_STEPS = (
    "Write in a few words your plan: first find the frames or lines that show the answer, then ask about\n"
    "them. Do not call query_native."
)
_RULES = (
    "The names video, question, choices (a list of texts) and duration (in seconds) are there without being\n"
    "defined. Call the functions below and plain Python only. Return what a query gave."
)
_OPEN_RULES = _RULES.replace("question, choices (a list of texts) and", "question and")

EXAMPLES: tuple[tuple[tuple[str, ...], Question, str], ...] = (
    (
        ("query_native",),
        Question("What kind of show is this video taken from?", ("a cooking show", "a quiz", "the news")),
        "<planning>\nAny part of the video shows what kind of show it is, so one look at the whole is "
        f"enough.\n</planning>\n<code>\n{NATIVE_PROGRAM}\n</code>",
    ),
    (
        ("get_informative_clips", "extract_frames", "detect_object", "crop", "run_ocr"),
        Question(
            "What is written on the box that the man in the green coat puts on the counter?",
            ("fragile", "this side up", "keep cold", "return to sender"),
        ),
        """<planning>
A short moment and small letters: find the clips with the man and the box, cut the box out of each frame and
read it, then ask with what was read.
</planning>
<code>
def execute_command(video, question):
    intervals, clips = get_informative_clips(video, "man in a green coat puts a box on a counter", top_k=3)
    parts = []
    texts = []
    for clip in clips:
        for frame in extract_frames(clip, num_frames=5):
            boxes = detect_object(frame, "box")
            if boxes:
                part = crop(frame, boxes[0])
                parts.append(part)
                text = run_ocr(part)
                if text and text not in texts:
                    texts.append(text)
    if not parts:
        parts = [frame for clip in clips for frame in extract_frames(clip, num_frames=5)]
    return query_mc(parts, question, choices, context="Text read from the frames: " + " ".join(texts))
</code>""",
    ),
    (
        ("get_informative_subtitles", "trim_after"),
        Question(
            "What does she do right after she says that the train is late?",
            ("she sits down", "she makes a call", "she leaves"),
        ),
        """<planning>
The words give the time: find the line, then look at what comes after it.
</planning>
<code>
def execute_command(video, question):
    lines = get_informative_subtitles(video, "the train is late", top_k=1)
    start, end = lines[0]
    frames = trim_after(video, end, intervals=15, num_frames=32)
    return query_mc(frames, question, choices)
</code>""",
    ),
)
"""Worked examples for planners that were not trained on this form, one for each mode and each way of finding
a moment: the optional modules that it calls, a question, a whole reply."""


OPEN_EXAMPLES: tuple[tuple[tuple[str, ...], Question, str], ...] = (
    (
        ("query_native",),
        Question.open("What kind of show is this video taken from?"),
        "<planning>\nAny part of the video shows what kind of show it is, so one look at the whole is "
        f"enough.\n</planning>\n<code>\n{OPEN_NATIVE_PROGRAM}\n</code>",
    ),
    (
        ("get_informative_clips", "extract_frames"),
        Question.open("What does the man in the green coat put on the counter?"),
        """<planning>
A short moment: find the clips with the man and the counter, then ask about their frames.
</planning>
<code>
def execute_command(video, question):
    intervals, clips = get_informative_clips(video, "man in a green coat at a counter", top_k=3)
    frames = [frame for clip in clips for frame in extract_frames(clip, num_frames=8)]
    return query_frames(frames, question)
</code>""",
    ),
    (
        ("get_informative_subtitles", "trim_after"),
        Question.open("What does she do right after she says that the train is late?"),
        """<planning>
The words give the time: find the line, then look at what comes after it.
</planning>
<code>
def execute_command(video, question):
    lines = get_informative_subtitles(video, "the train is late", top_k=1)
    start, end = lines[0]
    return query_frames(trim_after(video, end, intervals=15, num_frames=32), question)
</code>""",
    ),
)
"""The worked examples for open questions."""


def question_block(question: Question) -> str:
    """A question with its choices, if it has any, as in every prompt for a planner."""
    if question.is_open:
        return f"Question: {question.text}"
    return f"Question: {question.text}\nChoices:\n{question.lettered_choices()}"


def _kind(question: Question) -> str:
    """What kind of question a planner is told that it is."""
    return "an open question" if question.is_open else "a multiple choice question"


def plan(question: Question, *, adaptive: bool = True, reference: str = "", examples: bool = False) -> str:
    """Ask for a program (section 3.4). `adaptive` leaves the mode to the planner; otherwise it must take
    several steps. `reference`: the available functions, for a planner that was not trained on them;
    `examples`: add the worked examples that use only these."""
    parts = [
        f"There is {_kind(question)} about a video. Write a Python function that finds the answer, "
        f"{'a few words, ' if question.is_open else ''}in this form:\n"
        f"{_FORM.format(planning=_EITHER if adaptive else _STEPS)}"
    ]
    if reference:
        parts.append(_rules(question, reference))
    if examples:
        for needs, example, reply in OPEN_EXAMPLES if question.is_open else EXAMPLES:
            # Examples with absent modules, or of a mode that is not wanted, are left out.
            if (adaptive or needs != ("query_native",)) and all(f"`{need}(" in reference for need in needs):
                parts.append(f"Example\n{question_block(example)}\n{reply}\n")
    return "\n".join([*parts, question_block(question)])


def _rules(question: Question, reference: str) -> str:
    return f"{_OPEN_RULES if question.is_open else _RULES}\n\n{functions_block(reference)}"


def functions_block(reference: str) -> str:
    """The API reference, as prompts show it."""
    return f"Available functions\n\n{reference}"


def bug_fix(question: Question, program: str, log: str, *, reference: str = "") -> str:
    """Ask for a working program, given one that failed and its log (Fig. 11)."""
    return _refinement(
        f"A Python function was to find the answer to {_kind(question)} about a video, and its run "
        "failed. The log says what is wrong: write the function again without the bugs.",
        question,
        f"Buggy program:\n<code>\n{program}\n</code>\n\nLog:\n{log}",
        reference,
    )


def native_refinement(
    question: Question, program: str, *, result: str = "", log: str = "", reference: str = ""
) -> str:
    """Ask for more than one look, given a native program whose answer is unsure (Fig. 12). `result` (what it
    answered) and `log` (what it called) are shown if given."""
    return _refinement(
        f"A Python function was to find the answer to {_kind(question)} about a video in one glance "
        "at the whole, and the answer is unsure. Write a better function.",
        question,
        _doubtful(program, result, log),
        reference,
    )


def program_refinement(
    question: Question, program: str, *, result: str = "", log: str = "", reference: str = ""
) -> str:
    """Ask for a better program, given one whose answer is unsure (Fig. 13); see `native_refinement`."""
    return _refinement(
        f"A Python function was to find the answer to {_kind(question)} about a video, and the "
        "answer is unsure. Write a better function: other words to look for, a wider or narrower part of the "
        "video, other functions.",
        question,
        _doubtful(program, result, log),
        reference,
    )


def result_line(answer: str | None, confidence: float) -> str:
    """What a program answered, for the prompts that ask for a better one."""
    if answer is None:
        return "It gave no answer."
    return f"Its answer was {answer}. Its confidence was {confidence:.2f}."


def _refinement(task: str, question: Question, attempt: str, reference: str) -> str:
    parts = [
        f"{task} Write it in this form:\n{_FORM.format(planning='Write in a few words what to change.')}"
    ]
    if reference:
        parts.append(_rules(question, reference))
    return "\n".join([*parts, question_block(question), "", attempt])


def _doubtful(program: str, result: str, log: str) -> str:
    parts = [f"Existing program:\n<code>\n{program}\n</code>"]
    if result:
        parts.append(result)
    if log:
        parts.append(f"Log:\n{log}")
    return "\n\n".join(parts)
