"""Keeps text that was found in a video from acting as the marks of a chat. Knows no model."""

import re

_CONTROL = re.compile(r"<\|(\w+)\|>")


def escape_control_tokens(text: str) -> str:
    """The text with control tokens of the chat form broken up: `<|im_end|>` becomes `< |im_end| >`.

    What subtitles or signs say can then neither end a turn nor stand for pixels. Processors and servers read
    control tokens wherever they are written.
    """
    return _CONTROL.sub(r"< |\1| >", text)
