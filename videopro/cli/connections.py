"""What the environment says about connections: proxies, certificates, keys. It is checked before a client is
made of it, whose own errors name neither the variable nor the fix.

Standard library only. Messages show no password of a proxy, and no key.
"""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import SplitResult, urlsplit
from urllib.request import getproxies, proxy_bypass

from videopro.errors import ConfigError

_SCHEMES = ("http", "https", "all")
_SOCKS = ("socks5", "socks5h")
_DIRECT = ("http", "https")
CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR")
"""What our clients and the hub's read; the first one that is set counts."""
REQUESTS_CERTIFICATES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
"""What the package requests reads, which wandb uses; ours and the hub's clients do not."""


@dataclass(frozen=True)
class Proxy:
    """A proxy that the environment names."""

    variable: str
    address: str
    """Without user and password."""
    problem: str
    """Why no client can use it; "" if one can."""


def proxies() -> list[Proxy]:
    """The proxies that clients use, by scheme; none with NO_PROXY=*."""
    named = getproxies()
    # NO_PROXY=* turns all of them off.
    if "*" in (host.strip() for host in named.get("no", "").split(",")):
        return []
    return [_proxy(scheme, named[scheme]) for scheme in _SCHEMES if named.get(scheme)]


def has_no_proxy(url: str) -> bool:
    """Whether NO_PROXY exempts the host of a URL."""
    return bool(proxy_bypass(urlsplit(url).netloc.rpartition("@")[2]))


def certificates_problem(variables: tuple[str, ...] = CERTIFICATES) -> str:
    """What is wrong with the certificates that the environment names; "" for nothing."""
    name = next((name for name in variables if os.environ.get(name)), None)
    if name is None:
        return ""
    path, problem = Path(os.environ[name]), ""
    kind = "folder" if name == "SSL_CERT_DIR" else "file"
    if not path.exists():
        # A missing folder is no error of the libraries, which then trust nobody.
        problem = f"there is no such {kind}"
    elif kind == "folder":
        problem = "" if path.is_dir() else "it is no folder"
    elif not path.is_dir():
        try:
            ssl.create_default_context(cafile=str(path))
        except ssl.SSLError:
            problem = "it holds no certificates"
        except OSError as error:
            problem = f"it cannot be read ({error.strerror})"
    elif name not in REQUESTS_CERTIFICATES:  # which may be folders
        problem = "it is no file"
    return f"{name} is {path}: {problem}; name a {kind} of certificates, or unset {name}" if problem else ""


def check_connections(url: str = "") -> None:
    """Raise ConfigError if no connection can be made with the environment's proxies and certificates; `url`:
    where to, for one that NO_PROXY exempts."""
    problem = certificates_problem()
    # Clients cannot be made without the file; without the folder, they can make plain connections.
    if problem and not (problem.startswith("SSL_CERT_DIR") and url.startswith("http:")):
        raise ConfigError(problem)
    if url and has_no_proxy(url):
        return
    for proxy in proxies():
        if proxy.problem:
            raise ConfigError(
                f"{proxy.variable} is {proxy.address}: {proxy.problem}, or unset {proxy.variable}, or exempt "
                "the server's host with NO_PROXY"
            )


def key_problem(key: str) -> str:
    """Why a key cannot be sent, without any part of it; "" if it can."""
    # A key that was read from a file ends in a newline, which clients strip too.
    value = key.strip()
    # A proxy with passwords wants "Basic ...".
    body = re.sub(r"^(?:Basic|Bearer) ", "", value)
    if re.search(r"[\r\n]", body):
        return "it has a line break in the middle"
    if re.search(r"\s", body):
        return "it has a space in the middle"
    if not body.isascii():
        return "it has a character that is not ASCII"
    if not body.isprintable():
        return "it has a control character"
    if len(body) > 1 and body[0] == body[-1] and body[0] in "\"'":
        return "it is in quotation marks"
    return ""


def check_key(variable: str) -> str:
    """The key in an environment variable, "" without one. Raises ConfigError for one that cannot be sent."""
    key = os.environ.get(variable, "").strip()
    problem = key_problem(key)
    if problem:
        raise ConfigError(
            f"the key in the environment variable {variable} cannot be sent: {problem}; copy it again"
        )
    return key


def _proxy(scheme: str, address: str) -> Proxy:
    # Clients read an address without a scheme so.
    parts = _split(address if "://" in address else f"http://{address}")
    variable = next(_set_names(f"{scheme}_proxy"), f"{scheme}_proxy")
    if parts is None:
        return Proxy(variable, "...", "it is no address of a proxy, as in http://HOST:PORT: correct it")
    try:
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = parts.hostname, 0
    public_address = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
    problem = ""
    if parts.scheme in _SOCKS:
        if find_spec("socksio") is None:
            problem = "a SOCKS proxy needs the package socksio: pip install socksio"
    elif parts.scheme not in _DIRECT:
        schemes = ", ".join((*_DIRECT, *_SOCKS))
        problem = f"a proxy's address begins with one of {schemes}: correct it"
    if not problem and (not host or port == 0):
        problem = "it has no valid host and port: correct it"
    return Proxy(variable, public_address, problem)


def _split(address: str) -> SplitResult | None:
    try:
        return urlsplit(address)
    except ValueError:
        return None


def _set_names(variable: str) -> Iterator[str]:
    """The environment's own spellings of a variable, the lower-case one first, which counts."""
    yield from sorted((name for name in os.environ if name.lower() == variable), reverse=True)
