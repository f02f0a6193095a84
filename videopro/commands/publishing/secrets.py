"""Keys that must not go up: those of this environment, and what looks like one."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping

_ENDINGS = ("_KEY", "_TOKEN", "_SECRET", "_PASSWORD", "_CREDENTIALS")
_SHORTEST = 12
"""A shorter value of such a variable may stand in a text by chance."""

_PATTERNS: Mapping[str, re.Pattern[str]] = {
    "a token of the hub": re.compile(r"\bhf_[A-Za-z0-9]{30,}\b"),
    "a key of an API": re.compile(r"\bsk-[A-Za-z0-9_-]{20,}"),
    "a key of AWS": re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"),
    "a token of GitHub": re.compile(r"\b(?:ghp|gho|ghs|ghu|github_pat)_[A-Za-z0-9_]{30,}\b"),
    "a key of Google": re.compile(r"\bAIza[0-9A-Za-z_-]{35}"),
    "a private key": re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----"),
    "an address with a password": re.compile(r"[a-z][a-z0-9+.-]*://[^\s/:@\"']+:[^\s/@\"']+@"),
    "an Authorization header": re.compile(r"(?i)\bauthorization\W{1,6}(?:bearer|basic) [a-z0-9+/_=.-]{8,}"),
}


def environment_keys() -> dict[str, str]:
    """The keys of this environment, and the hub's stored token: what each is -> its value."""
    from huggingface_hub import get_token

    keys = {
        f"the value of {name}": value.strip() for name, value in os.environ.items() if name.endswith(_ENDINGS)
    }
    keys["the token of the hub"] = (get_token() or "").strip()
    return {name: value for name, value in keys.items() if len(value) >= _SHORTEST}


def find_secrets(text: str, keys: Mapping[str, str]) -> Iterator[tuple[int, str]]:
    """(line number, what is there) of secrets in a text; never a part of one. `keys`: see
    `environment_keys`."""
    spans = [(text.find(value), name) for name, value in keys.items() if value in text]
    for name, pattern in _PATTERNS.items():
        match = pattern.search(text)
        if match is not None:
            spans.append((match.start(), name))
    for start, name in sorted(spans):
        yield text.count("\n", 0, start) + 1, name
