"""Every prompt that VideoPro sends to a model, in one place.

A prompt is the text part of a user turn; the video always comes before it, so that questions about one video
share a prefix. A benchmark's official answer prompt is that benchmark's data, not part of this file. Knows
questions, and nothing of models.
"""

from videopro.question import Question


def multiple_choice(question: Question) -> str:
    """Ask for one option letter (the part that Fig. 14 plays in the paper; the words are ours)."""
    return f"{question.text}\n{question.lettered_choices()}\nReply with the letter of the right option only."


def yes_no(text: str) -> str:
    """Ask a question whose answer is Yes or No."""
    return f"{text}\nReply with Yes or No only."


def open_ended(text: str) -> str:
    """Ask for a short answer in words."""
    return f"{text}\nReply in a few words."


def count(text: str) -> str:
    """The question how many of something there are; a text that asks already stays as it is. Options or a
    form of reply come after it."""
    return text if text.rstrip().endswith("?") else f"How many {text} are there?"


def summarize(question: Question, transcript: str, words: int) -> str:
    """Ask for what a transcript says that helps with a question, in at most so many words (section 3.2,
    global context)."""
    return (
        f"Subtitles of the whole video:\n{transcript}\n\n"
        f"A question about the video:\n{question.text}\n{question.lettered_choices()}\n"
        f"Sum up, in at most {words} words, what the subtitles say that bears on the question: the thread of "
        "the story, and names, events and their order where they matter. Do not answer the question."
    )


def caption() -> str:
    """Ask what is to be seen."""
    return "Describe what is shown.\nReply in one sentence."


def locate(text: str) -> str:
    """Ask for the box of a named thing in one image, in Qwen-VL's form: relative coordinates from 0 to
    1000.
    """
    return f"Locate the {text} in the image.\nReply with its box as JSON only."


def with_context(context: str, text: str) -> str:
    """Put text that was found (subtitle lines, OCR text) before a prompt."""
    return f"{context}\n{text}" if context else text
