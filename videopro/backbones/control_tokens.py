"""Keeps text from a video, such as subtitles, from acting as control tokens of the chat template."""

import re

_CONTROL = re.compile(r"<\|(\w+)\|>")


def escape_control_tokens(text: str) -> str:
    """The text with its control tokens broken up: `<|im_end|>` becomes `< |im_end| >`.

    Text from subtitles or signs can then neither end a turn nor stand for pixels. Processors and servers
    interpret control tokens wherever they occur.
    """
    return _CONTROL.sub(r"< |\1| >", text)
