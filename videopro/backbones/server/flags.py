"""Which flag a server was started without, by what it says when it refuses a request.

The words are those of vLLM 0.32, against which `tests/live` checks them.
"""

from __future__ import annotations

import re

# What vLLM says, and the flag that it wants.
_WANTED = (
    (
        r"media_io_kwargs|mm_processor_kwargs",
        "start vLLM with --trust-request-mm-kwargs, which lets a request carry the times of its frames",
    ),
    (
        r"sample logprobs of \d+, which is greater",
        "start vLLM with --max-logprobs 20, among which the letters of an answer are looked for",
    ),
    (
        r"At most \d+ (image|video)\(s\)",
        'start vLLM with --limit-mm-per-prompt \'{"video": 1, "image": N}\', where N is the backbone\'s '
        "'frames', or lower that",
    ),
    (
        r"maximum context length|greater than max_model_len|maximum model length",
        "start vLLM with a larger --max-model-len, show fewer frames (--backbone frames=N), or ask for "
        "shorter replies (max_new_tokens)",
    ),
)
ADAPTERS = "vLLM serves an adapter by name with --enable-lora --max-lora-rank RANK --lora-modules NAME=FOLDER"


def wanted_flag(words: str) -> str:
    """The flag that a refusal asks for, as "start vLLM with ..."; empty if it asks for none that is known."""
    return next((fix for says, fix in _WANTED if re.search(says, words)), "")


def wanted_of_proxy(status: int, is_page: bool, sent: int) -> str:
    """What to do about an error that a proxy before the server makes, such as nginx, or that it causes; empty
    for any other. `is_page`: the reply is a page for people; `sent`: bytes of the request."""
    if status == 413:
        return (
            f"the request has {sent / 2**20:.1f} MiB: raise the limit of the proxy before the server (nginx: "
            "client_max_body_size 64m;), or show fewer frames or pixels (--backbone frames=N pixels=N)"
        )
    if status in (502, 503, 504) and is_page:
        return (
            "this comes from a proxy before the server: see that the server itself runs, and that the proxy "
            "waits as long as a reply takes (nginx: proxy_read_timeout 600s;)"
        )
    return ""
