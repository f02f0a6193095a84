"""What the hub's client raises, as one line that says what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from huggingface_hub import constants
from huggingface_hub.errors import (
    EntryNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    LocalEntryNotFoundError,
    LocalTokenNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from videopro.errors import ConfigError

NO_TOKEN = "there is no token of the hub: run `hf auth login`, or set HF_TOKEN"
_CONNECTIONS = ("httpx", "httpcore", "requests", "urllib3", "hf_xet")
"""Packages whose errors mean that a connection failed; the client's version decides which of them it is."""


@contextmanager
def asking_hub(name: str, revision: str | None = None, *, again: str = "") -> Iterator[None]:
    """Turn what goes wrong in the block, about the repository `name`, into a ConfigError. `again`: what
    re-running the command does, where a connection failed."""
    where = f"{name}@{revision}" if revision else name
    try:
        yield
    except (LocalTokenNotFoundError, OfflineModeIsEnabled) as error:
        is_offline = isinstance(error, OfflineModeIsEnabled)
        message = f"{where}: HF_HUB_OFFLINE is set; unset it" if is_offline else f"{where}: {NO_TOKEN}"
        raise ConfigError(message) from error
    except GatedRepoError as error:
        page = f"{constants.ENDPOINT}/{name}"
        raise ConfigError(
            f"{where} is gated: accept its terms on {page}, and set HF_TOKEN to a token of that account"
        ) from error
    except RevisionNotFoundError as error:
        raise ConfigError(
            f"{name} has no revision {revision!r}: give a branch, a tag or a commit of it"
        ) from error
    except RepositoryNotFoundError as error:
        raise ConfigError(
            f"the hub has no {name}, or it is private: check the name, and that HF_TOKEN may read it"
        ) from error
    except HFValidationError as error:
        raise ConfigError(
            f"{name!r} is no name on the hub; give OWNER/NAME ({_first_line(error)})"
        ) from error
    except LocalEntryNotFoundError as error:
        raise ConfigError(f"{where}: {_cause(error)}{again}") from error
    except HfHubHTTPError as error:
        raise ConfigError(f"{where}: {_status_text(error)}{again}") from error
    except EntryNotFoundError as error:
        raise ConfigError(f"{where}: {_first_line(error)}") from error
    # The upload of a large file failed, by either protocol.
    except RuntimeError as error:
        cause = error.__cause__
        reason = f"{_first_line(error)} {_status_text(cause) if isinstance(cause, HfHubHTTPError) else ''}"
        raise ConfigError(f"{where}: {reason.strip()}{again}") from error
    except Exception as error:
        if not _is_connection(error):
            raise
        raise ConfigError(f"{where}: {_host()} cannot be reached ({_first_line(error)}){again}") from error


def _status_text(error: HfHubHTTPError) -> str:
    status = error.response.status_code
    message = (error.server_message or _first_line(error)).strip().split("\n")[0]
    if status == 401:
        return "the hub does not know the token; make one at https://huggingface.co/settings/tokens"
    if status == 403:
        return f"the token may not do that ({message}); give one with write access to its owner"
    if status == 429:
        return f"the hub asks to wait ({message})"
    return f"the hub answered with status {status} ({message})"


def _cause(error: BaseException) -> str:
    cause = error.__cause__
    if isinstance(cause, HfHubHTTPError):
        return _status_text(cause)
    if isinstance(cause, OfflineModeIsEnabled):
        return "HF_HUB_OFFLINE is set, and it is not in the hub's cache here"
    if cause is not None and _is_connection(cause):
        return f"{_host()} cannot be reached ({_first_line(cause)})"
    return "it is not in the hub's cache here, or not all of it; unset HF_HUB_OFFLINE to download it"


def _is_connection(error: BaseException) -> bool:
    modules = {kind.__module__.partition(".")[0] for kind in type(error).__mro__}
    return isinstance(error, ConnectionError | TimeoutError) or any(
        module.startswith(_CONNECTIONS) for module in modules
    )


def _host() -> str:
    return str(constants.ENDPOINT.partition("://")[2].rpartition("@")[2])


def _first_line(error: BaseException) -> str:
    return str(error).strip().split("\n")[0] or type(error).__name__
