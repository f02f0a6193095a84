"""What replies wrap answers in: thinking blocks, tags, boxes, objects and markup."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator

from videopro.question.question import LETTERS
from videopro.question.thoughts import spoken, visible

_ANSWER_TAG = re.compile(r"(?i)<(?P<close>/?)(?P<name>answer|final_answer|final)>")
_TURN_END = re.compile(r"<\|(?:im_end|endoftext|eot_id|end)\|>|</s>|<eos>|<end_of_turn>")
_TOKEN = re.compile(r"<\|[^|<>]*\|>|</?s>|<(?:eos|bos|pad|end_of_turn)>")
_TAG = re.compile(r"</?(?![A-Z]>)[A-Za-z][A-Za-z0-9_]*\s*/?>")
_BOXED = re.compile(r"\\f?boxed\s*\{((?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*)\}|\\f?boxed\s+([A-Z])\b")
_LATEX = re.compile(r"\\(?:text|textbf|textit|mathrm|mathbf|mathit|rm|bf)\s*\{([^{}]*)\}")
_FIELD = (
    r"(?:(?:final|best|top|first)[_ ]?)?(?:answer|option|choice|letter|result|prediction|response|guess)"
    r"|best|most[_ ]likely|ranking"
)
_LOOSE_FIELD = re.compile(rf"(?i)[\"']?\b({_FIELD})[\"']?\s*:\s*[\"']?([^\"',}}\n]+)")
_OBJECT = re.compile(r"\{[^{}]*\}")
_MARKUP = re.compile(
    r"~~[^~\n]{1,200}~~|^```[a-z]+$|[*`~$]|\\[()\[\]]|(?<!\w)_+|_+(?!\w)|^[ \t]*[>#]+", re.MULTILINE
)
# Bullets, arrows and signs of approval before a line's first word, and signs after a reply's last word.
_BULLET = re.compile(r"^\s*(?:[-–—•·=>→⇒➡👉✅☑✔▶►➤]+\ufe0f?\s*)+(?=[^\s\d.])")
_APPROVAL = re.compile(r"(?<=[\w.)!])\s*[👍✅☑✔🙂😊\ufe0f]+\s*$")


def said(reply: str) -> str:
    """What the model says before it ends its turn, without thoughts, control tokens and characters that no
    reader sees; full-width letters, digits and brackets are plain ones (NFKC). Empty if the thinking has
    not ended."""
    turns = (turn for turn in _TURN_END.split(spoken(reply)) if turn.strip())
    return visible(unicodedata.normalize("NFKC", _TOKEN.sub(" ", next(turns, ""))))


def boxes(text: str) -> Iterator[str]:
    """The texts in LaTeX boxes."""
    for braced, letter in _BOXED.findall(text):
        yield letter or _LATEX.sub(r"\1", braced)


def objects(text: str) -> Iterator[str]:
    """The values of the answer fields of objects in JSON or similar ({'answer': 'C'}, {answer: C})."""
    for body in _OBJECT.findall(text):
        yield from _fields(body)


def _fields(text: str) -> Iterator[str]:
    try:
        # As pairs: a field that stands twice has two values.
        fields = json.loads(text, object_pairs_hook=list)
    # Models write Python's quotes, or none.
    except (ValueError, RecursionError):
        fields = _LOOSE_FIELD.findall(text)
    if fields and all(key in tuple(LETTERS) and isinstance(value, bool) for key, value in fields):
        yield " ".join(f"{key}: {value}." for key, value in fields)
    for key, value in fields:
        if re.fullmatch(_FIELD, str(key), re.IGNORECASE):
            if str(key).casefold() == "ranking" and isinstance(value, list) and value:
                value = value[0]
            yield str(value) if isinstance(value, str | int | float) else ""


def answer_tags(text: str) -> Iterator[str]:
    """The texts in <answer> tags; of nested tags only the innermost. An unclosed tag extends to the end."""
    opening: re.Match[str] | None = None
    for tag in _ANSWER_TAG.finditer(text):
        if not tag["close"]:
            opening = tag
        elif opening and tag["name"].lower() == opening["name"].lower():
            yield text[opening.end() : tag.start()]
            opening = None
    if opening:
        yield text[opening.end() :]


def plain(text: str) -> str:
    """The text without markup, and without objects whose fields are not answers."""
    text = _OBJECT.sub(lambda match: " " if ":" in match[0] else match[0], text)
    text = _MARKUP.sub(" ", _TAG.sub(" ", _LATEX.sub(r"\1", text))).strip()
    return _APPROVAL.sub("", _BULLET.sub("", text)).strip()
