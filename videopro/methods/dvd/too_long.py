"""Tells a request that is longer than a model takes from other requests that cannot be served."""

from __future__ import annotations

import re

from videopro.backbones.server import RequestRefused
from videopro.errors import BackboneError

# What servers (OpenAI, vLLM, SGLang, llama.cpp, TGI, Gemini) and local backbones say of a prompt that is too
# long. There is no code that all of them send.
_MESSAGE = re.compile(
    r"context|too (?:long|large)|longer than|exceed|must have less than|out of memory", re.I
)
_STATUSES = (400, 413, 422)


def is_too_long(error: BackboneError) -> bool:
    """Whether a model says that a request is longer than it takes, or that it ran out of memory."""
    if isinstance(error, RequestRefused) and error.status not in _STATUSES:
        return False
    return _MESSAGE.search(str(error)) is not None
