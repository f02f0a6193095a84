"""Options for somebody who waits for one answer, where a benchmark's run follows a rule."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from videopro.methods.registry import takes

_OF_PROGRAMS = ("program", "adaptive", "videopro")


def favouring_answers(
    method: str, options: Mapping[str, Any], *, shows_subtitles: bool = False
) -> dict[str, Any]:
    """The options, with defaults that favour getting an answer: an answer that a refinement lost is kept, the
    model answers if no program or agent did, and a direct question is shown the subtitles that it was
    given. The options override them, and the paper's preset has the paper's rule: the last program's answer
    counts, and nothing replaces it."""
    if method in _OF_PROGRAMS and options.get("preset") == "paper":
        return dict(options)
    if method != "native":
        favoured = {"final": "last-answered", "fallback": "native"}
        return {**{name: rule for name, rule in favoured.items() if takes(method, name, rule)}, **options}
    return {"subtitles": "all", **options} if shows_subtitles else dict(options)
