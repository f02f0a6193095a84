"""Parses what a question asks for, from its text alone: the pocket world's kinds, or another.

It reads as someone who has never seen the world would: by a few words that reveal the kind, in any order.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class ParsedQuestion:
    """A parsed question: its kind, and the words in it that say what to look for."""

    kind: str
    """A key of `programs.WAYS`."""
    text: str
    place: str = ""
    thing: str = ""
    article: str = ""
    """The article before the thing."""
    line: str = ""
    """Words that are spoken."""

    @property
    def the_place(self) -> str:
        """The place with its article."""
        return f"the {self.place}"

    @property
    def named(self) -> str:
        """The thing with its article."""
        return f"{self.article} {self.thing}".strip()

    @property
    def subject(self) -> str:
        """What to find, in the question's own words."""
        if self.line:
            return self.line
        parts = [part for part in (self.named, self.place and f"at the {self.place}") if part]
        return " ".join(parts) or self.text.rstrip("?")


def parse_question(text: str) -> ParsedQuestion:
    """The kind of a question and its words; "other" for one that fits no kind."""
    low = text.lower()
    quoted = re.search(r'["“](.+?)["”]', text)
    if quoted and re.search(r"\b(say|says|said)\b", low):
        return ParsedQuestion("spoken", text, line=quoted[1])
    if re.search(r"\bsign\b", low):
        return _at_place("sign", text, place=_place(low))
    if re.search(r"\b(weather)\b", low):
        return ParsedQuestion("weather", text)
    order = re.search(r"\b(after|before) the (\w+)", low)
    if order:
        return ParsedQuestion(order[1], text, place=order[2])
    if re.search(r"\bhow (many|often)\b", low):
        return _at_place("count", text, place=_place(low) or _show_place(low))
    if re.search(r"\b(story|topic)\b", low) or re.search(r"\bnarrator\b.*\babout\b", low):
        return ParsedQuestion("story", text)
    if re.search(r"\bmost of\b|\bmost of the time\b", low) and re.search(r"\b(where|places?)\b", low):
        return ParsedQuestion("main_place", text)
    looks = (("color", r"colou?r"), ("shape", r"shape"))
    for kind, pattern in looks:
        if re.search(rf"\b{pattern}\b", low):
            article, thing = _thing(low) if kind == "color" else ("", "")
            return _at_place(kind, text, place=_place(low), article=article, thing=thing)
    article, thing = _thing(low)
    if re.search(r"\b(do|does|move|moves)\b", low) and _place(low) and thing:
        return ParsedQuestion("move", text, place=_place(low), article=article, thing=thing)
    heard = re.search(
        r"(?:\bthat |\bnarrator, |^)([A-Z]\w+ (?:\w+ed|lost|found|bought|sold|hid|made|took))\b", text
    )
    if heard:
        return ParsedQuestion("narration", text, line=heard[1])
    return ParsedQuestion("other", text)


def _at_place(kind: str, text: str, *, place: str, article: str = "", thing: str = "") -> ParsedQuestion:
    """The question, if its words say where to look."""
    if not place:
        return ParsedQuestion("other", text)
    return ParsedQuestion(kind, text, place=place, article=article, thing=thing)


def _place(low: str) -> str:
    match = re.search(r"\bat the (\w+)", low)
    return match[1] if match else ""


def _show_place(low: str) -> str:
    match = re.search(r"\bthe (\w+) (?:is )?shown\b|\bsee the (\w+)", low)
    return (match[1] or match[2]) if match else ""


def _thing(low: str) -> tuple[str, str]:
    """The thing that is asked about and the article before it; blank if there is none."""
    match = re.search(r"\bthere is (an?) (\w+)|\b(the|an?) (\w+) at the\b|\bdoes (the) (\w+)", low)
    if match is None:
        return "", ""
    article, thing = (word for word in match.groups() if word)
    return article, thing
