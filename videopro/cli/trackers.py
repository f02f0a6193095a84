"""What wandb, trackio and tensorboard need before a run begins: their package, and wandb an account.

wandb asks for one when it starts, after the model was loaded; a training run would get there after minutes.
"""

from __future__ import annotations

import configparser
import netrc
import os
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import urlsplit

from videopro.cli.connections import REQUESTS_CERTIFICATES, certificates_problem, key_problem
from videopro.cli.requirements import Need

TRACKERS = ("wandb", "trackio", "tensorboard")
_OFFLINE = ("offline", "disabled", "dryrun")
_OWN_HOST = "https://api.wandb.ai"


def tracker_needs(names: Iterable[str]) -> list[Need]:
    """What the trackers among these names need. Nothing is imported or asked."""
    needs = []
    for name in dict.fromkeys(names):
        if name in TRACKERS:
            problem = wandb_problem() if name == "wandb" else ""
            needs.append(Need(f"report_to {name}", extra="tracking", package=name, problem=problem))
    return needs


def wandb_problem() -> str:
    """Why wandb cannot send anything; "" if it has an account, or is told to send nothing."""
    if _is_offline():
        return ""
    if os.environ.get("WANDB_API_KEY"):
        problem = key_problem(os.environ["WANDB_API_KEY"])
        if problem:
            return f"the key in WANDB_API_KEY cannot be sent: {problem}; copy it again"
    elif not os.environ.get("WANDB_IDENTITY_TOKEN_FILE") and not _has_login():
        return "no key; set WANDB_API_KEY, or run wandb login, or set WANDB_MODE=offline"
    return certificates_problem(REQUESTS_CERTIFICATES)


def _is_offline() -> bool:
    named = os.environ.get("WANDB_MODE") or _configured("mode")
    disabled = os.environ.get("WANDB_DISABLED", "").lower() in ("true", "1", "yes")
    return named in _OFFLINE or disabled


def _has_login() -> bool:
    """Whether `wandb login` left a key for the host that is used."""
    url = os.environ.get("WANDB_BASE_URL") or _configured("base_url") or _OWN_HOST
    host = urlsplit(url).hostname or ""
    named = os.environ.get("NETRC")
    # The same files that requests reads, through which wandb finds its key.
    for file in [Path(named)] if named else [_home() / ".netrc", _home() / "_netrc"]:
        try:
            login = netrc.netrc(str(file)).authenticators(host)
        except (OSError, netrc.NetrcParseError, UnicodeDecodeError):
            continue
        if login is not None and login[2]:
            return True
    return False


def _configured(name: str) -> str:
    """A setting in wandb's own files: the project's, then the user's."""
    folder = Path(os.environ.get("WANDB_CONFIG_DIR") or _home() / ".config" / "wandb")
    for file in (Path("wandb") / "settings", folder / "settings"):
        reader = configparser.ConfigParser()
        try:
            # wandb's own files, in the order in which wandb lets them count.
            reader.read(file, encoding="utf-8")
        except (OSError, configparser.Error, UnicodeDecodeError):
            continue
        if reader.has_option("default", name):
            return reader.get("default", name, raw=True)
    return ""


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError:
        return Path()
