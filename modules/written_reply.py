"""What a backbone wrote for a module, if it came to say anything."""

from __future__ import annotations

from videopro.backbones import Generation
from videopro.modules.errors import ModuleError


def written_text(reply: Generation) -> str:
    """The text of a reply. Raises ModuleError for one that the limit of tokens ended before the model said
    anything: nothing found and nothing said are not the same."""
    text = reply.text.strip()
    if not text and reply.finish == "length":
        doing = "while the model was thinking" if reply.thoughts else "before the model said anything"
        raise ModuleError(f"the reply was cut off after {reply.tokens_out} tokens, {doing}")
    return text
