"""Results of tools in the form of the protocol."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mcp_types import CallToolResult, ContentBlock, TextContent
from pydantic import BaseModel

from videopro.tools import VideoTools


def structured(result: BaseModel, images: Sequence[ContentBlock] = ()) -> CallToolResult:
    """A result for programs, and as text for those that read nothing else."""
    text = TextContent(type="text", text=result.model_dump_json(exclude_none=True))
    return CallToolResult(content=[text, *images], structured_content=result.model_dump(mode="json"))


def with_evidence(
    kind: type[BaseModel], tools: VideoTools, images: Sequence[ContentBlock] = (), **values: Any
) -> CallToolResult:
    """A result of this kind, with what the film's tools have looked at and found."""
    return structured(kind(**values, evidence=tools.evidence), images)
