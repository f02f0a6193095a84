"""Films from addresses, where the operator allows it: public hosts alone, within a size and a time.

Whoever may ask could otherwise make the server read what only it can reach: its own machine, its network, a
cloud's metadata. So a name is resolved once, every address behind it must be public, and the connection goes
to the address that was looked at; a redirect is checked like the first address. Proxies are not used.
"""

from __future__ import annotations

import hashlib
import http.client
import ipaddress
import socket
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias
from urllib.parse import SplitResult, urljoin, urlsplit

from videopro import __version__
from videopro.serve.multipart import too_large
from videopro.serve.problems import Problem
from videopro.storage import printable

SCHEMES = ("http://", "https://")
_MOST_REDIRECTS = 5
_REDIRECTS = (301, 302, 303, 307, 308)
_CONNECT_SECONDS = 10.0
_CHUNK = 2**16
_PARAM = "video_url"
_Ip: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
_TRANSLATED = ipaddress.IPv6Network("64:ff9b::/96")  # RFC 6052


def fetch(
    url: str, part: Path, *, limit: int, seconds: float, check: Callable[[], None] = lambda: None
) -> str:
    """Write what is at an address to `part`, and return its SHA-256 in hex. `check` is called on the way, and
    may raise. Raises Problem; nothing is left then."""
    end = time.monotonic() + seconds
    try:
        for _ in range(_MOST_REDIRECTS + 1):
            target = _target(url)
            connection = _connection(target, end)
            try:
                reply = _request(connection, target)
                if reply.status in _REDIRECTS:
                    url = urljoin(url, reply.getheader("Location", ""))
                    continue
                if reply.status != 200:
                    raise _problem(url, f"its server answers {reply.status}")
                return _save(reply, part, limit, end, url, check)
            finally:
                connection.close()
        raise _problem(url, f"it leads on more than {_MOST_REDIRECTS} times")
    except (OSError, http.client.HTTPException, ValueError) as error:
        part.unlink(missing_ok=True)
        reason = (
            "it takes too long" if isinstance(error, TimeoutError) else f"{error or type(error).__name__}"
        )
        raise _problem(url, printable(reason, 200)) from error
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _problem(url: str, reason: str) -> Problem:
    message = f"{printable(url, 200)}: cannot be fetched ({reason}); download it, and upload it to /v1/files"
    return Problem(400, message, code="not_fetched", param=_PARAM)


def _target(url: str) -> SplitResult:
    target = urlsplit(url)
    # Also after a redirect, which may lead to file:// or ftp://. A user's name is how
    # http://public@private/ misleads a reader.
    if target.scheme not in ("http", "https") or not target.hostname or target.username is not None:
        raise _problem(url, "only http:// and https:// addresses without a user's name are fetched")
    return target


def public_address(host: str, port: int, url: str) -> str:
    """The address of a host, if all that it has are public. Raises Problem."""
    addresses = {str(entry[4][0]) for entry in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)}
    for address in addresses:
        ip = ipaddress.ip_address(address.partition("%")[0])
        if not all(each.is_global and not each.is_multicast for each in (ip, *_inside(ip))):
            raise _problem(url, "its host is on a private network or on this machine")
    return min(addresses)


def _inside(ip: _Ip) -> list[ipaddress.IPv4Address]:
    """The older addresses that an address stands for: a network may translate them."""
    if isinstance(ip, ipaddress.IPv4Address):
        return []
    inside = [ip.ipv4_mapped, ip.sixtofour, *(ip.teredo or ())]
    if ip in _TRANSLATED:
        inside.append(ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF))
    return [each for each in inside if each is not None]


def _connection(target: SplitResult, end: float) -> http.client.HTTPConnection:
    host = target.hostname or ""
    is_secure = target.scheme == "https"
    port = target.port or (443 if is_secure else 80)
    address = public_address(host, port, target.geturl())
    left = end - time.monotonic()
    if left <= 0:
        raise TimeoutError
    timeout = min(_CONNECT_SECONDS, left)
    plain = socket.create_connection((address, port), timeout)
    connection = http.client.HTTPConnection(host, port, timeout=timeout)
    try:
        # By the name, although the connection goes to the address that was checked.
        connection.sock = (
            ssl.create_default_context().wrap_socket(plain, server_hostname=host) if is_secure else plain
        )
    except BaseException:
        plain.close()
        raise
    return connection


def _request(connection: http.client.HTTPConnection, target: SplitResult) -> http.client.HTTPResponse:
    path = target._replace(scheme="", netloc="", fragment="", path=target.path or "/").geturl()
    # Compressed, a small reply may be a large file, and its size would not be the declared one.
    agent = {"User-Agent": f"videopro/{__version__}", "Accept-Encoding": "identity"}
    connection.request("GET", path, headers=agent)
    return connection.getresponse()


def _save(
    reply: http.client.HTTPResponse,
    part: Path,
    limit: int,
    end: float,
    url: str,
    check: Callable[[], None],
) -> str:
    declared = reply.getheader("Content-Length", "")
    if declared.isdigit() and int(declared) > limit:
        raise too_large(limit, _PARAM)
    digest, size = hashlib.sha256(), 0
    with part.open("xb") as out:
        # read1 returns what has come: a slow server cannot hold the checks below back.
        while chunk := reply.read1(_CHUNK):
            check()
            size += len(chunk)
            if size > limit:
                raise too_large(limit, _PARAM)
            if time.monotonic() > end:
                raise TimeoutError
            digest.update(chunk)
            out.write(chunk)
    if declared.isdigit() and size != int(declared):
        raise _problem(url, f"it ended after {size:,} of {int(declared):,} bytes")
    return digest.hexdigest()
