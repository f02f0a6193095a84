"""Names of repositories on the hub, as a user gives them."""

from __future__ import annotations

from huggingface_hub.errors import HFValidationError
from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]

from videopro.errors import ConfigError


def split_name(text: str, *, revision: bool) -> tuple[str, str | None]:
    """OWNER/NAME and the revision of OWNER/NAME@REVISION; None without one. `revision`: whether there may be
    one. Raises ConfigError."""
    name, at, commit = text.partition("@")
    if at and not revision:
        raise ConfigError(f"{text}: give OWNER/NAME, and the branch as --revision")
    if (at and not commit) or name.count("/") != 1:
        raise ConfigError(
            f"{text!r} is no name on the hub; give OWNER/NAME" + ("[@REVISION]" if revision else "")
        )
    try:
        validate_repo_id(name)
    except HFValidationError as error:
        raise ConfigError(f"{text!r} is no name on the hub: {str(error).splitlines()[0]}") from error
    return name, commit or None
