"""Replies that a server constrains to a JSON schema (vLLM, SGLang, OpenAI: `response_format`)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from videopro.backbones.server.http import RequestRefused

# Statuses with which servers refuse a field that they do not know, and what their messages then name.
_REFUSED = (400, 422, 501)
_NAMES = ("response_format", "json_schema", "guided", "structured", "schema", "grammar")


def response_format(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The request field that asks for a reply that fits a JSON schema."""
    name = re.sub(r"[^A-Za-z0-9_-]", "_", str(schema.get("title") or "reply"))[:64]
    return {"type": "json_schema", "json_schema": {"name": name, "schema": dict(schema)}}


def refuses_schema(refused: RequestRefused) -> bool:
    """Whether a server refused a request because of its schema."""
    message = str(refused).lower()
    return refused.status in _REFUSED and any(name in message for name in _NAMES)
