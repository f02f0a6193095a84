"""What all processes of a training agree on: an error of any of them, and that the run's folder is theirs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from accelerate import PartialState
from accelerate.utils import gather_object

from videopro.errors import RunError, VideoProError
from videopro.storage import sole_writer


def raise_everywhere(error: VideoProError | None, kind: type[VideoProError]) -> None:
    """Raise an error of any process in all of them: there as it is, elsewhere as `kind`. Otherwise they would
    wait for a process that has ended. Called in every process; `error`: None where all is well."""
    messages = gather_object([None if error is None else str(error)])
    if error is not None:
        raise error
    for process, message in enumerate(messages):
        if message is not None:
            raise kind(f"process {process} stopped: {message.splitlines()[0]}")


@contextmanager
def sole_training(output: Path) -> Iterator[None]:
    """Keep other trainings out of a run's folder within the block, by a lock of the main process. Called in
    every process. Raises RunError in all of them if another training has the folder."""
    with ExitStack() as held:
        error = None
        if PartialState().is_main_process:
            try:
                held.enter_context(sole_writer(output, "output_dir"))
            except RunError as refused:
                error = refused
        raise_everywhere(error, RunError)
        yield
