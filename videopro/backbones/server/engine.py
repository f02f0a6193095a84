"""Which engine is behind a server: vLLM and SGLang take fields that OpenAI refuses.

`/models` of a plain engine names it (`owned_by`). Ray Serve LLM puts the placeholder of OpenAI's reference
there (2.60, ModelCard in ray/llm/_internal/serve/core/configs/openai_api_models.py), and passes requests and
replies on as the engine's own. So such a server is asked for the ids of a prompt, which vLLM returns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from videopro.backbones.server.http import RequestRefused

if TYPE_CHECKING:
    from videopro.backbones.base import BackboneConfig
    from videopro.backbones.server.http import Endpoint

ENGINES = ("vllm", "sglang")
"""Servers that know more than OpenAI's fields, as `/models` names them."""
UNNAMED = (None, "", "organization-owner")
"""What `/models` says of a server that does not name its engine."""
# How servers refuse a field that they do not know; some ignore it.
_REFUSALS = (400, 422, 500, 501)


def is_vllm(endpoint: Endpoint, config: BackboneConfig) -> bool:
    """Whether the server returns the ids of a prompt as vLLM does, by one request for one token. Raises
    BackboneError if it serves no request."""
    body: dict[str, Any] = {
        "model": config.model,
        "messages": [{"role": "user", "content": "Hi"}],
        "max_tokens": 1,
        **config.extra_body,
        "return_token_ids": True,
    }
    try:
        (reply,) = endpoint.complete([lambda: body], retry_5xx=False)
    except RequestRefused as refused:
        if refused.status in _REFUSALS:
            return False
        raise
    return bool(reply.prompt_token_ids)
