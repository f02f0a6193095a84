"""Prompts for looking: answering, counting, describing, locating."""

import re

from videopro.question.question import Question


def multiple_choice(question: Question) -> str:
    """Ask for one option letter (the counterpart of the paper's Fig. 14, in our own words)."""
    return f"{question.text}\n{question.lettered_choices()}\nReply with the letter of the right option only."


def direct(question: Question) -> str:
    """Ask a question in one step: for an option's letter, or for an answer in words."""
    return open_ended(question.text) if question.is_open else multiple_choice(question)


def yes_no(text: str) -> str:
    """Ask a question whose answer is Yes or No."""
    return f"{text}\nReply with Yes or No only."


def open_ended(text: str) -> str:
    """Ask for a short answer in words."""
    return f"{text}\nReply in a few words."


def count(text: str) -> str:
    """Ask how many of something there are; a text that is already a question stays as it is. Options or a
    form of reply are appended by the caller."""
    # Programs pass both: "apples", and the whole question.
    return text if text.rstrip().endswith("?") else f"How many {text} are there?"


def summarize(question: Question, transcript: str, max_words: int) -> str:
    """Ask for what a transcript says that helps with a question, in at most so many words (section 3.2,
    global context)."""
    return (
        f"Subtitles of the whole video:\n{transcript}\n\n"
        f"A question about the video:\n{_full_text(question)}\n"
        f"Sum up, in at most {max_words} words, what the subtitles say that bears on the question: the "
        "thread of the story, and names, events and their order where they matter. "
        "Do not answer the question."
    )


def _full_text(question: Question) -> str:
    return question.text if question.is_open else f"{question.text}\n{question.lettered_choices()}"


def caption() -> str:
    """Ask what is shown."""
    return "Describe what is shown.\nReply in one sentence."


def locate(text: str) -> str:
    """Ask for the box of a named thing in one image, in Qwen-VL's form: relative coordinates from 0 to
    1000. An article before the name is left out, since the sentence has its own.
    """
    name = re.sub(r"^(?:the|an?) ", "", text, flags=re.IGNORECASE)
    return f"Locate the {name} in the image.\nReply with its box as JSON only."


def said_at_frames(lines: str) -> str:
    """The subtitle lines at the frames that a model sees or knows, for the prompts of agents."""
    return f"Subtitles at the frames:\n{lines}"


def with_context(context: str, text: str) -> str:
    """Put text that was found (subtitle lines, OCR text) before a prompt."""
    return f"{context}\n{text}" if context else text
