"""The environment: proxies, certificates and keys, the wandb account, and cache folders. It is checked before
a client uses it, because the client's errors name neither the variable nor the fix.

Standard library only. Messages show no password of a proxy, and no key.
"""

from __future__ import annotations

import configparser
import netrc
import os
import re
import ssl
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from videopro.errors import ConfigError

CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR")
"""Variables that our clients and the hub's client read; the first one that is set counts."""


def cache_root() -> Path:
    """The cache folder: $VIDEOPRO_CACHE, else ~/.cache/videopro. Raises ConfigError for a user without a home
    folder, in a program that is not a VideoPro command (commands use another folder, see
    `videopro.startup`)."""
    named = os.environ.get("VIDEOPRO_CACHE")
    try:
        return Path(named).expanduser() if named else Path.home() / ".cache" / "videopro"
    except RuntimeError as error:
        raise ConfigError("no home folder (HOME) for the cache; set VIDEOPRO_CACHE to a folder") from error


def existing_folder(folder: Path) -> Path:
    """The folder, or the nearest one above it that exists."""
    return next(above for above in (folder.absolute(), *folder.absolute().parents) if above.exists())


def folder_problem(folder: Path) -> str:
    """Why a folder, which need not exist yet, is not writable; "" if it is."""
    above = existing_folder(folder)
    if not above.is_dir():
        return f"{folder}: {above} is not a folder"
    return "" if os.access(above, os.W_OK | os.X_OK) else f"{folder}: cannot be written"


# ---- proxies and certificates ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Proxy:
    """A proxy that the environment names."""

    variable: str
    address: str
    """Without user and password."""
    problem: str
    """Why clients cannot use it; "" if they can."""


def proxies() -> list[Proxy]:
    """The proxies that clients use, by scheme; none with NO_PROXY=*."""
    named = getproxies()
    if "*" in (host.strip() for host in named.get("no", "").split(",")):
        return []
    return [_proxy(scheme, named[scheme]) for scheme in ("http", "https", "all") if named.get(scheme)]


def _proxy(scheme: str, address: str) -> Proxy:
    # The environment's own spelling; the lower-case one counts.
    names = sorted(name for name in os.environ if name.lower() == f"{scheme}_proxy")
    variable = names[-1] if names else f"{scheme}_proxy"
    try:
        # Clients read an address without a scheme so.
        parts = urlsplit(address if "://" in address else f"http://{address}")
        has_place = bool(parts.hostname) and parts.port != 0
        is_usable = has_place and parts.scheme in ("http", "https", "socks5", "socks5h")
    # No address at all, or a port that is none.
    except ValueError:
        is_usable = False
    if not is_usable:
        problem = "it is not a proxy address, such as http://HOST:PORT or socks5://HOST:PORT; correct it"
        return Proxy(variable, "...", problem)
    needs_package = parts.scheme.startswith("socks") and find_spec("socksio") is None
    problem = "a SOCKS proxy needs the package socksio; run pip install socksio" if needs_package else ""
    return Proxy(variable, f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}", problem)


def has_no_proxy(url: str) -> bool:
    """Whether NO_PROXY exempts the host of a URL."""
    return bool(proxy_bypass(urlsplit(url).netloc.rpartition("@")[2]))


def certificates_problem() -> str:
    """What is wrong with the certificates that the environment names; "" if nothing is."""
    name = next((name for name in CERTIFICATES if os.environ.get(name)), None)
    if name is None:
        return ""
    path, kind, problem = Path(os.environ[name]), "file" if name == "SSL_CERT_FILE" else "folder", ""
    if kind == "folder":
        # No error of the libraries, which then trust nobody.
        problem = "" if path.is_dir() else "no such folder"
    elif not path.is_file():
        problem = "no such file"
    else:
        try:
            ssl.create_default_context(cafile=str(path))
        except OSError as error:  # which ssl.SSLError is
            problem = "it has no certificates" if isinstance(error, ssl.SSLError) else f"{error.strerror}"
    return f"{name} is {path}: {problem}; set a {kind} of certificates, or unset {name}" if problem else ""


def check_connections(url: str = "") -> None:
    """Raise ConfigError if the environment's proxies and certificates allow no connection; `url`: the target,
    which NO_PROXY may exempt."""
    problem = certificates_problem()
    # Clients cannot be made without the file; without the folder, they can make plain connections.
    if problem and not (problem.startswith("SSL_CERT_DIR") and url.startswith("http:")):
        raise ConfigError(problem)
    if url and has_no_proxy(url):
        return
    for proxy in proxies():
        if proxy.problem:
            raise ConfigError(
                f"{proxy.variable} is {proxy.address}: {proxy.problem}, unset {proxy.variable}, or exempt "
                "the server's host with NO_PROXY"
            )


# ---- keys --------------------------------------------------------------------------------------------------


def key_problem(key: str) -> str:
    """Why a key cannot be sent, without any part of it; "" if it can."""
    # A key that was read from a file ends in a newline, which clients strip too; a proxy with passwords wants
    # "Basic ...".
    body = re.sub(r"^(?:Basic|Bearer) ", "", key.strip())
    if not re.fullmatch(r"[!-~]*", body):
        return "it has a space, a line break or another character that is invalid in a header"
    if len(body) > 1 and body[0] == body[-1] and body[0] in "\"'":
        return "it is in quotation marks"
    return ""


def check_key(variable: str) -> str:
    """The key in an environment variable; "" if there is none. Raises ConfigError if it cannot be sent."""
    key = os.environ.get(variable, "").strip()
    problem = key_problem(key)
    if problem:
        raise ConfigError(
            f"the key in the environment variable {variable} cannot be sent: {problem}; copy it again"
        )
    return key


def wandb_problem() -> str:
    """Why wandb cannot log; "" if it has an account, or is offline. wandb itself asks for an account only
    when it starts, minutes later, after the model is loaded."""
    mode = os.environ.get("WANDB_MODE") or _configured("mode")
    is_disabled = os.environ.get("WANDB_DISABLED", "").lower() in ("true", "1", "yes")
    if is_disabled or mode in ("offline", "disabled", "dryrun"):
        return ""
    if key := os.environ.get("WANDB_API_KEY"):
        problem = key_problem(key)
        return f"the key in WANDB_API_KEY cannot be sent: {problem}; copy it again" if problem else ""
    if os.environ.get("WANDB_IDENTITY_TOKEN_FILE") or _has_wandb_login():
        return ""
    return "no key; set WANDB_API_KEY, run wandb login, or set WANDB_MODE=offline"


def _has_wandb_login() -> bool:
    """Whether `wandb login` left a key for the host that is used."""
    url = os.environ.get("WANDB_BASE_URL") or _configured("base_url") or "https://api.wandb.ai"
    named, home = os.environ.get("NETRC"), Path(os.path.expanduser("~"))
    # The same files that requests reads, through which wandb finds its key.
    for file in [Path(named)] if named else [home / ".netrc", home / "_netrc"]:
        try:
            login = netrc.netrc(str(file)).authenticators(urlsplit(url).hostname or "")
        except (OSError, netrc.NetrcParseError, UnicodeDecodeError):
            continue
        if login is not None and login[2]:
            return True
    return False


def _configured(name: str) -> str:
    """A setting in wandb's own files: the user's, over which the project's counts."""
    folder = Path(os.environ.get("WANDB_CONFIG_DIR") or os.path.expanduser("~/.config/wandb"))
    reader = configparser.ConfigParser(interpolation=None)
    try:
        reader.read([folder / "settings", Path("wandb") / "settings"], encoding="utf-8")
    except (configparser.Error, UnicodeDecodeError):
        return ""
    return reader.get("default", name, fallback="")
