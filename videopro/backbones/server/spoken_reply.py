"""Reads what a served model says, whatever its server: the text, the thoughts, and what ended it.

All that asks a server reads its replies here: answers, planners, teachers, agents and judges.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from videopro.errors import BackboneError
from videopro.question import spoken
from videopro.storage import encodable

if TYPE_CHECKING:
    from videopro.backbones.server.completion import CalledTool, Choice, Completion

# What servers write into `finish_reason`, in lower case with underscores.
_CUT = {
    *("length", "max_tokens", "max_length", "max_new_tokens", "max_output_tokens", "token_limit"),
    *("model_length", "model_context_window_exceeded", "max_context_length", "incomplete"),
}
_ENDED = {
    *("stop", "eos", "eos_token", "end", "end_turn", "stop_sequence", "stop_token", "stop_str", "complete"),
    *("completed", "done", "finished", "tool_calls", "tool_use", "function_call"),
}
_FAILED = {
    *("content_filter", "safety", "recitation", "blocklist", "prohibited_content", "spii", "refusal"),
    *("error", "abort", "aborted", "cancel", "cancelled", "canceled", "timeout", "malformed_function_call"),
}
_WORDS = 60


@dataclass(frozen=True)
class ServedReply:
    """What a server's first choice says."""

    text: str
    """What is said, without thoughts; empty if there is none."""
    thoughts: str
    cut_at: int | None
    """The limit in tokens that cut the reply off; None: it ended by itself."""
    tokens_in: int
    tokens_out: int
    """With those of the thoughts; 0 from a server that does not count."""
    calls: tuple[CalledTool, ...] = ()

    @property
    def why_empty(self) -> str:
        """Why nothing is said, and what helps."""
        if self.cut_at is not None:
            doing = "while the model was thinking" if self.thoughts else "before the model said anything"
            return (
                f"the reply has no text: its limit of {self.cut_at} tokens ended it {doing}; raise "
                "max_new_tokens, or turn thinking off"
            )
        return "the reply has no text" + (" besides thoughts" if self.thoughts else "")


def read_reply(reply: Completion, server: str, limit: int) -> ServedReply:
    """The first choice of a completion of at most `limit` tokens. Raises BackboneError, naming `server`, for
    a reply that the server broke off."""
    choice = reply.choices[0]
    message = choice.message
    cut = finish_of(reply, server, limit) == "length"
    said = spoken(encodable(message.content or ""))
    return ServedReply(
        said.text,
        encodable(message.thoughts) + said.thoughts,
        limit if cut else None,
        reply.usage.prompt_tokens if reply.usage else 0,
        reply.usage.completion_tokens if reply.usage else 0,
        tuple(message.tool_calls or ()),
    )


def finish_of(reply: Completion, server: str, limit: int) -> Literal["stop", "length"]:
    """Whether a reply of at most `limit` tokens ended by itself. A server that gives no known reason is
    judged by the number of its tokens. Raises BackboneError for one that says that it failed."""
    choice: Choice = reply.choices[0]
    reason = re.sub(r"[\s-]+", "_", (choice.finish_reason or "").strip()).lower()
    reason = re.sub(r"^(?:finish_?reason[._])", "", reason)
    if reason in _CUT:
        return "length"
    if reason in _FAILED:
        raise BackboneError(
            f"{server} ended a reply with {encodable(choice.finish_reason or '')[:_WORDS]!r}: it did not "
            "finish the reply, or does not give it away"
        )
    if reason in _ENDED:
        return "stop"
    return "length" if reply.usage is not None and reply.usage.completion_tokens >= limit else "stop"
