"""Texts that go to a model and come from it: control tokens of chat templates, in subtitles and in replies to
learn, and thoughts, which are set apart from what a reply says.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import replace
from itertools import accumulate

from videopro.backbones.base import Generation
from videopro.question import spoken_part
from videopro.traces import CUT_OFF, THOUGHTS

_CONTROL = re.compile(r"<\|(\w+)\|>")
_OF_FAMILIES = (
    # Llama 2, Mistral
    *("<s>", "</s>", "<unk>", "<pad>", "[INST]", "[/INST]", "<<SYS>>", "<</SYS>>", "[TOOL_CALLS]", "[IMG]"),
    # Gemma
    *("<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>", "<start_of_image>", "<end_of_image>"),
    # LLaVA, InternVL, SmolVLM
    *("<image>", "<video>", "<audio>", "<img>", "</img>", "<IMG_CONTEXT>", "<end_of_utterance>"),
)
_OF_DEEPSEEK = r"<｜[^<>｜]+｜>"


def escape_control_tokens(text: str) -> str:
    """The text with its control tokens broken up: `<|im_end|>` becomes `< |im_end| >`.

    Text from subtitles or signs can then neither end a turn nor stand for pixels. Processors and servers
    interpret control tokens wherever they occur.
    """
    return _CONTROL.sub(r"< |\1| >", text)


def control_pattern(special: Iterable[str]) -> re.Pattern[str]:
    """Finds the control tokens of a tokenizer, whose `special` ones are given, and those of other families: a
    reply with one of these was made for another model."""
    texts = map(re.escape, (*special, *_OF_FAMILIES))
    return re.compile("|".join([*texts, _CONTROL.pattern, _OF_DEEPSEEK]))


# Of longer thoughts, a note has the beginning.
_LONGEST = 32_000


def reply_notes(thoughts: str, cut_at: int | None) -> dict[str, str]:
    """What a trace notes of a reply: its thoughts, and the limit of tokens that cut it off, if one did."""
    notes = {} if cut_at is None else {CUT_OFF: f"after {cut_at} tokens"}
    return notes | ({THOUGHTS: stored_thoughts(thoughts)} if thoughts else {})


def stored_thoughts(thoughts: str) -> str:
    """Thoughts as a trace holds them: of long ones the beginning."""
    return thoughts if len(thoughts) <= _LONGEST else f"{thoughts[:_LONGEST]}…"


def without_thoughts(reply: Generation, *, is_opened: bool = False) -> Generation:
    """The reply with its thoughts in `thoughts`: the text, its tokens and its confidence are those of what is
    said. `is_opened`: see `videopro.question.spoken`."""
    in_text = spoken_part(reply.text, is_opened=is_opened)
    text = reply.text[in_text]
    if text == reply.text:
        return reply
    # The text of tokens may have replacement characters in other places, so its parts are found again.
    in_tokens = spoken_part("".join(reply.tokens), is_opened=is_opened)
    ends = list(accumulate(map(len, reply.tokens)))
    # A token that holds the end of a thought and the first word counts as said.
    first, last = bisect_right(ends, in_tokens.start), bisect_right(ends, in_tokens.stop - 1) + 1
    part = slice(first, max(first, last) if in_tokens.stop > in_tokens.start else first)
    tokens = reply.tokens[part]
    return replace(
        reply,
        text=text,
        token_ids=reply.token_ids[part] if len(reply.token_ids) == len(reply.tokens) else (),
        logprobs=reply.logprobs[part],
        tokens=tokens,
        thoughts=reply.thoughts + reply.text[: in_text.start] + reply.text[in_text.stop :],
        thought_tokens=reply.thought_tokens + max(len(reply.tokens), len(reply.token_ids)) - len(tokens),
    )
