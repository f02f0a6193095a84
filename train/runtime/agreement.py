"""What all processes of a training have to agree on before the next step in which they take part together."""

from __future__ import annotations

from accelerate.utils import gather_object

from videopro.errors import VideoProError


def raise_everywhere(error: VideoProError | None, kind: type[VideoProError]) -> None:
    """Raise an error of any process in all of them: there as it is, elsewhere as `kind`. Otherwise they would
    wait for a process that has ended. Called in every process; `error`: None where all is well."""
    messages = gather_object([None if error is None else str(error)])
    if error is not None:
        raise error
    for process, message in enumerate(messages):
        if message is not None:
            raise kind(f"process {process} stopped: {message.splitlines()[0]}")
