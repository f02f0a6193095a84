"""The addresses of models on servers, `server:MODEL@URL` and `api:MODEL@URL`, and the settings of requests to
them.

The grammar is strict and has no default: a slip of the pen must not send a request, and with it a key, to
another host. An address holds no key, because it is recorded with a run: keys come from environment
variables.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from ipaddress import IPv6Address
from typing import Any, Literal, Self
from urllib.parse import urlsplit

from videopro.errors import ConfigError

_EXAMPLES = {
    "server": "server:qwen@http://localhost:8000/v1",
    "api": "api:gpt-5@https://api.openai.com/v1",
}
# A model's name may contain an @, so the first one before a scheme ends it.
_SPEC = re.compile(r"(?P<model>.*?)@(?P<url>[A-Za-z][A-Za-z0-9+.-]*://.*)", re.DOTALL)
_LABEL = "[A-Za-z0-9_](?:[A-Za-z0-9_-]*[A-Za-z0-9_])?"  # Names of containers have underscores.
_HOST = re.compile(rf"(?:{_LABEL}(?:\.{_LABEL})*\.?|\[(?P<ipv6>[0-9A-Fa-f:.]+)\])(?::[0-9]+)?")
_OPENAI_HOSTS = ("openai.com", "openai.azure.com")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_KEYS = "put the key into an environment variable, and set api_key_env to its name"


# By name only: those of a `BackboneConfig`, which has these too, begin with the model.
@dataclass(frozen=True, kw_only=True)
class ServerSettings:
    """How requests are sent to every server of a run: for its model, planner, answerer and agents. Set with
    `--backbone`; not part of a run's key. Each model behind a server counts its own requests, even where two
    share an address."""

    concurrency: int = field(default=64, metadata={"answers": False})
    """Maximum requests in flight, over all threads: an 8B behind vLLM is in full use from about 32 on."""
    timeout: float = field(default=300.0, metadata={"answers": False})
    """Time limit of one request, in seconds."""
    retries: int = field(default=4, metadata={"answers": False})
    """Maximum retries after a transient failure."""
    engine: Literal["auto", "vllm", "sglang", "other"] = field(
        default="auto", metadata={"answers": True, "kind": "server"}
    )
    """The engine of servers that do not report it; never for OpenAI. "auto": detect it."""
    api_body: Mapping[str, Any] = field(default_factory=dict, hash=False, metadata={"answers": True})
    """Extra fields of requests to `api:` models (teachers, planners, agents), such as {"reasoning_effort":
    "low"}."""

    @classmethod
    def given_in(cls, settings: Mapping[str, Any]) -> Self:
        """These settings of a backbone, else the defaults. They are checked when a server's config is
        made."""
        return cls(**{field.name: settings[field.name] for field in fields(cls) if field.name in settings})

    def as_settings(self) -> dict[str, Any]:
        """As settings of a `BackboneConfig`."""
        return asdict(self)

    def for_api(self, concurrency: int) -> dict[str, Any]:
        """The same for a rate-limited chat endpoint: at most `concurrency` requests."""
        return {
            "concurrency": min(self.concurrency, concurrency),
            "timeout": self.timeout,
            "retries": self.retries,
            "extra_body": self.api_body,
        }


def read_address(spec: str, where: str) -> tuple[str, str]:
    """The model and the URL of `server:MODEL@URL` or `api:MODEL@URL`. Raises ConfigError, which begins with
    `where` and never shows a user name, a password or a query."""
    kind, _, target = spec.partition(":")
    match = _SPEC.fullmatch(target)
    if match is None:
        problem = "its model, or its address that begins with http:// or https://, is missing"
        if "@" in target:
            problem += f", and it may hold a password; {_KEYS}"
    elif not match["model"].isprintable() or re.search(r"^$|\s|://", match["model"]):
        problem = "its model is empty, or contains a space, an address or an unprintable character"
    else:
        problem = url_problem(match["url"])
    if match is None or problem:
        # Without the rest, which may be a secret.
        raise ConfigError(f"{where} '{kind}:...': {problem}; write {kind}:MODEL@URL, as in {_EXAMPLES[kind]}")
    return match["model"], match["url"]


def url_problem(url: str) -> str:
    """What is wrong with the URL of a server; empty for a valid one. Shows nothing that may be a secret."""
    scheme, _, location = url.partition("://")
    if scheme.lower() not in ("http", "https") or not location:
        return "its address does not begin with http:// or https://"
    if any(mark in location for mark in "@?#;"):
        return f"its address contains a user, a password or a query, which would be recorded; {_KEYS}"
    if re.search(r"[\s\\]", url) or not url.isprintable():
        return "its address contains a space, a backslash or an unprintable character"
    try:
        parts = urlsplit(url)
        port = parts.port
        host = _HOST.fullmatch(parts.netloc)
        if host is not None and host["ipv6"]:
            IPv6Address(host["ipv6"])
    except ValueError:
        return "its address has no valid host and port, as in http://localhost:8000/v1"
    if host is None or port == 0:
        return "its address has no valid host and port, as in http://localhost:8000/v1"
    if parts.path.rstrip("/").endswith("/chat/completions"):
        return "its address ends in /chat/completions, which is added automatically: leave that out"
    return ""


def is_openai(url: str) -> bool:
    """Whether this is OpenAI's own address, or that of its models on Azure."""
    host = urlsplit(url).hostname or ""
    return any(host == domain or host.endswith(f".{domain}") for domain in _OPENAI_HOSTS)


def default_key_name(url: str) -> str | None:
    """OPENAI_API_KEY for OpenAI's own address only, so that the key is not sent to other servers."""
    parts = urlsplit(url)
    is_openai_itself = parts.scheme == "https" and parts.hostname == "api.openai.com"
    return "OPENAI_API_KEY" if is_openai_itself else None


def check_key_name(name: str | None) -> None:
    """Raise ConfigError for an invalid name of an environment variable. It is not shown, because it may be
    the key itself."""
    if name is not None and not _VARIABLE.fullmatch(name):
        raise ConfigError(
            "api_key_env: is not the name of an environment variable; put the key into a variable such as "
            "MY_KEY, and set api_key_env=MY_KEY"
        )


def without_address(spec: str) -> str:
    """`server:MODEL` or `api:MODEL`: the spec without its address, if it has one."""
    kind, _, target = spec.partition(":")
    match = _SPEC.fullmatch(target)
    return f"{kind}:{target.partition('@')[0] if match is None else match['model']}"
