"""The hub's client: the names it accepts, and its errors as one line with the fix."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from huggingface_hub import constants
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]

from videopro.cli import check_connections, key_problem
from videopro.errors import ConfigError, VideoProError, first_line

_OF_STATUS = {
    401: "the hub rejected the token; create one at https://huggingface.co/settings/tokens",
    403: "the token lacks permission; use one with write access to the owner",
}


@contextmanager
def asking_hub(name: str, revision: str | None = None, *, again: str = "") -> Iterator[None]:
    """Turn errors of the block about the repository `name` into a ConfigError. `again`: what re-running the
    command does after a failed connection."""
    try:
        yield
    except VideoProError:
        raise
    except GatedRepoError as error:
        raise ConfigError(
            f"{name} is gated; accept its terms on {constants.ENDPOINT}/{name}, and set HF_TOKEN to a token "
            "of that account"
        ) from error
    except RevisionNotFoundError as error:
        raise ConfigError(
            f"{name} has no revision {revision!r}; pass one of its branches, tags or commits"
        ) from error
    except RepositoryNotFoundError as error:
        raise ConfigError(
            f"{name} does not exist on the hub or is private; check the name, and that HF_TOKEN can read it"
        ) from error
    # Which error means a failed connection depends on the client's version; whatever it is, its first line
    # and a second try are all that there is to say. The upload of a large file wraps the hub's answer.
    except Exception as error:
        answer = error if isinstance(error, HfHubHTTPError) else error.__cause__
        reason = first_line(error)
        if isinstance(answer, HfHubHTTPError):
            told = _OF_STATUS.get(answer.response.status_code, "the hub refused the request")
            reason = f"{told} ({answer.server_message or reason})"
        elif not isinstance(error, OSError | RuntimeError) and not _is_connection(error):
            raise
        else:
            reason = f"{constants.ENDPOINT.partition('://')[2]}: {reason}"
        raise ConfigError(f"{name}: {reason}{again}") from error


def _is_connection(error: Exception) -> bool:
    modules = {kind.__module__.partition(".")[0] for kind in type(error).__mro__}
    return any(
        module.startswith(("httpx", "httpcore", "requests", "urllib3", "hf_xet")) for module in modules
    )


def check_hub(token: str | None, *, needed: bool) -> None:
    """Raise ConfigError if this environment and token cannot be used with the hub. `needed`: whether a token
    is required."""
    if constants.HF_HUB_OFFLINE:
        raise ConfigError("HF_HUB_OFFLINE is set; unset it")
    check_connections(constants.ENDPOINT)
    if needed and not token:
        raise ConfigError(
            "no hub token found; run `hf auth login`, or set HF_TOKEN to a token with write access "
            "(--dry-run needs none)"
        )
    if problem := key_problem(token or ""):
        raise ConfigError(f"the hub token cannot be sent: {problem}; copy it again")


def split_name(text: str) -> tuple[str, str | None]:
    """OWNER/NAME and the revision of OWNER/NAME[@REVISION]; None without one. Raises ConfigError."""
    name, _, revision = text.partition("@")
    try:
        if name.count("/") != 1:
            raise HFValidationError("pass OWNER/NAME")
        validate_repo_id(name)
    except HFValidationError as error:
        raise ConfigError(
            f"{text!r} is not a hub name (OWNER/NAME, of letters, digits, - _ and .)"
        ) from error
    return name, revision or None
