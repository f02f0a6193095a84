"""Separates a model's thoughts from its reply.

The one place that knows how models write their thoughts: letters, words, intervals, programs, objects and
grades are read from what is said.
"""

from __future__ import annotations

import re

_NAME = r"(?:think|thinking|thoughts?|reasoning|scratchpad)"
# <|channel>thought ... <channel|> is Gemma 4's, <unused94>thought ... <unused95> MedGemma's. An analysis may
# be part of what is said, except at the beginning of the reply.
_OPEN = re.compile(
    rf"<(?:\w+:)?{_NAME}(?:\s[^<>]*)?>|<\|(?:{_NAME}|begin_of_thought|START_THINKING)\|>|◁think▷|\[THINK\]"
    r"|<\|channel>|<unused94>|\A\s*<analysis>",
    re.IGNORECASE,
)
_CLOSE = re.compile(
    rf"</(?:\w+:)?{_NAME}\s*>|<\|(?:/{_NAME}|end_of_thought|END_THINKING)\|>|◁/think▷|\[/THINK\]"
    r"|<channel\|>|<unused95>|(?P<analysis></analysis>)",
    re.IGNORECASE,
)
_ANALYSIS = re.compile(r"\s*<analysis>", re.IGNORECASE)
# Of gpt-oss: <|channel|>analysis<|message|>...<|end|><|start|>assistant<|channel|>final<|message|>...
_CHANNEL = re.compile(r"<\|channel\|>\s*(?P<name>[^<|]*?)\s*(?:<\|constrain\|>[^<|]*)?<\|message\|>")
_CHANNELS = "<|channel|>"


def spoken(reply: str, *, is_opened: bool = False) -> str:
    """What is said in a reply, without thoughts; empty if the thinking has not ended. `is_opened`: the prompt
    ended with the mark that begins a thought, so that the reply begins inside it.

    What comes after the last end of a thought is said, up to the next beginning. If there is an end without a
    beginning, the mark was in the prompt. Of channels only a final one that comes last is said.

    >>> spoken("<think>Red or blue?</think>B")
    'B'
    >>> spoken("It is red, so", is_opened=True)
    ''
    """
    return reply[spoken_part(reply, is_opened=is_opened)]


def spoken_part(reply: str, *, is_opened: bool = False) -> slice:
    """Where `spoken` finds what is said: everything else in the reply is thoughts, with their marks."""
    return _divided(reply, is_opened)[0]


def is_thinking(reply: str, *, is_opened: bool = False) -> bool:
    """Whether a reply ends inside a thought."""
    return _divided(reply, is_opened)[1]


def _divided(reply: str, is_opened: bool) -> tuple[slice, bool]:
    if _CHANNELS in reply:
        return _divided_by_channels(reply)
    ends = _CLOSE.finditer(reply)
    if not _ANALYSIS.match(reply):
        ends = (end for end in ends if not end["analysis"])
    # The last end, because a model may think, speak and think again.
    closed = max(ends, key=re.Match.end, default=None)
    if closed is None and is_opened:
        return slice(len(reply), len(reply)), True
    start = closed.end() if closed is not None else 0
    opened = _OPEN.search(reply, start)
    end = opened.start() if opened is not None else len(reply)
    if closed is not None:
        # The line breaks that a template puts after a thought are not said.
        start += len(reply[start:end]) - len(reply[start:end].lstrip())
    return slice(start, end), opened is not None


def _divided_by_channels(reply: str) -> tuple[slice, bool]:
    last = reply.rindex(_CHANNELS)
    channel = _CHANNEL.match(reply, last)
    if channel is not None and channel["name"] == "final":
        return slice(channel.end(), len(reply)), False
    return slice(len(reply), len(reply)), True


# Soft hyphen, joiners and fillers of scripts, zero-width space and joiners, marks of direction, word joiner,
# byte order mark, variation selectors, tags, and control characters that are no white space.
_UNSEEN = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_BLANK = re.compile("[\u2800\xa0]")


def visible(text: str) -> str:
    """The text without characters that no reader sees; the two that look like spaces are spaces.

    >>> visible("\\u200fB\\u200b.")
    'B.'
    """
    # Nearly every reply, and much faster than two substitutions.
    if text.isascii() and text.isprintable():
        return text
    return _BLANK.sub(" ", _UNSEEN.sub("", text))
