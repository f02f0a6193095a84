"""The addresses of models on servers: `server:MODEL@URL` and `api:MODEL@URL`.

The grammar is strict and has no default: a slip of the pen must not send a request, and with it a key, to
another host. An address holds no key, because it is recorded with a run: keys come from environment
variables.
"""

from __future__ import annotations

import re
from ipaddress import IPv6Address
from urllib.parse import urlsplit

from videopro.errors import ConfigError
from videopro.storage import printable

OPENAI = "https://api.openai.com/v1"
_EXAMPLES = {"server": "server:qwen@http://localhost:8000/v1", "api": f"api:gpt-5@{OPENAI}"}
# A model's name may contain an @, so the first one before a scheme ends it.
_SPEC = re.compile(r"(?P<model>.*?)@(?P<url>[A-Za-z][A-Za-z0-9+.-]*://.*)", re.DOTALL)
_LABEL = "[A-Za-z0-9_](?:[A-Za-z0-9_-]*[A-Za-z0-9_])?"  # Names of containers have underscores.
_HOST = re.compile(rf"(?:{_LABEL}(?:\.{_LABEL})*\.?|\[(?P<ipv6>[0-9A-Fa-f:.]+)\])(?::[0-9]+)?")
_OPENAI_HOSTS = ("openai.com", "openai.azure.com")
_LONGEST = 200
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_KEYS = (
    "put the key into an environment variable, and name that with api_key_env (--backbone or --options "
    "api_key_env=NAME, or --api-key-env NAME)"
)


def read_address(spec: str, where: str) -> tuple[str, str]:
    """The model and the URL of `server:MODEL@URL` or `api:MODEL@URL`. Raises ConfigError, which begins with
    `where` and never shows a user name, a password or a query."""
    kind, _, rest = spec.partition(":")
    form = f"write {kind}:MODEL@URL, as in {_EXAMPLES[kind]}"
    found = _SPEC.fullmatch(rest)
    if found is None:
        raise ConfigError(f"{where} {_shown(spec)!r}: {_what_is_missing(kind, rest)}; {form}")
    model, url = found["model"], found["url"]
    problem = _name_problem(model) or url_problem(url)
    if problem:
        raise ConfigError(f"{where} {_shown(spec)!r}: {problem}; {form}")
    return model, url


def _name_problem(model: str) -> str:
    if not model:
        return "it names no model"
    if not model.isprintable() or re.search(r"\s", model) or "://" in model:
        return "its model has a space, an address or a character that cannot be shown in its name"
    return ""


def url_problem(url: str) -> str:
    """What is wrong with the URL of a server; empty for a good one. Names nothing that may be a secret."""
    scheme, _, rest = url.partition("://")
    if scheme.lower() not in ("http", "https") or not rest:
        return "its address does not begin with http:// or https://"
    if any(mark in rest for mark in "@?#;"):
        return f"its address holds a user, a password or a query, which would be recorded; {_KEYS}"
    if re.search(r"[\s\\]", url) or not url.isprintable():
        return "its address has a space, a backslash or a character that cannot be shown"
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
        return "its address ends in /chat/completions, which is added to it: leave that out"
    return ""


def is_openai(url: str) -> bool:
    """Whether this is OpenAI's own address, or that of its models on Azure."""
    host = urlsplit(url).hostname or ""
    return any(host == own or host.endswith(f".{own}") for own in _OPENAI_HOSTS)


def default_key_name(url: str) -> str | None:
    """OPENAI_API_KEY for OpenAI's own address only, so that the key is not sent to other servers."""
    parts = urlsplit(url)
    own = parts.scheme == "https" and parts.hostname == "api.openai.com"
    return "OPENAI_API_KEY" if own else None


def check_key_name(name: str | None) -> None:
    """Raise ConfigError for what cannot be the name of an environment variable. It is not shown, because it
    may be the key itself."""
    if name is not None and not _VARIABLE.fullmatch(name):
        raise ConfigError(
            "api_key_env: is no name of an environment variable; put the key into a variable such as MY_KEY, "
            "and give its name: api_key_env=MY_KEY"
        )


def recorded_spec(spec: str) -> str:
    """An `api:` spec as runs record it: OpenAI's own address is left out, as it was when it was the
    default."""
    return spec.removesuffix(f"@{OPENAI}") if spec.startswith("api:") else spec


def without_address(spec: str) -> str:
    """`server:MODEL` or `api:MODEL`: the spec without its address, which may be missing from old records."""
    kind, _, rest = spec.partition(":")
    found = _SPEC.fullmatch(rest)
    return f"{kind}:{rest.partition('@')[0] if found is None else found['model']}"


def _what_is_missing(kind: str, rest: str) -> str:
    model, at, address = rest.partition("@")
    if not at:
        own = f" (of OpenAI: {kind}:{model}@{OPENAI})" if kind == "api" and model else ""
        return f"it names no address, and there is no default{own}"
    if not address:
        return "it names no address after the @"
    if "@" in address:
        return f"its address has no http:// or https://, and may hold a password; {_KEYS}"
    return "its address does not begin with http:// or https://"


def _shown(spec: str) -> str:
    """A spec without what may be a secret."""
    kind, _, rest = spec.partition(":")
    found = _SPEC.fullmatch(rest)
    model, at, address = (found["model"], "@", found["url"]) if found else rest.partition("@")
    if "://" in model or (at and found is None and ":" in model):
        return f"{kind}:..."
    # %40 is an @.
    hidden = any(mark in address for mark in "@?#;%")
    return printable(f"{kind}:{model}@..." if hidden else spec, _LONGEST)
