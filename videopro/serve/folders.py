"""The operator's folders, whose films clients name by relative paths. No path leads out of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path, PurePosixPath

from videopro.serve.problems import Problem
from videopro.video import FILM_ENDINGS, files_below

PREFIX = "folder:"
_MOST_FILMS = 10_000


class FilmFolders:
    """The folders that the operator named."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = tuple(folder.expanduser().resolve() for folder in folders)

    def resolve(self, relative: str) -> Path:
        """The file at a relative path, through links that stay inside of the folders. Raises Problem for
        anything else; the message never says what is elsewhere on this machine."""
        printed = relative if len(relative) <= 200 else f"{relative[:200]}…"
        if not self._folders:
            message = "this server offers no folders of films; upload the film to /v1/files"
            raise Problem(400, message, code="no_folders")
        path = PurePosixPath(relative)
        if not relative or "\0" in relative or path.is_absolute() or ".." in path.parts:
            message = (
                f"{PREFIX}{printed!r}: is no relative path inside of the server's folders; "
                "GET /v1/videopro/folders lists their films"
            )
            raise Problem(400, message, code="outside_folders")
        for folder in self._folders:
            try:
                file = (folder / path).resolve()
                is_inside = any(file.is_relative_to(each) for each in self._folders)
                if is_inside and file.is_file():
                    return file
            except (OSError, RuntimeError, ValueError):  # Names that are too long, circles of links.
                continue
        message = (
            f"{PREFIX}{printed}: there is no such film in the server's folders; GET /v1/videopro/folders"
        )
        raise Problem(404, f"{message} lists them", code="no_film")

    def films(self) -> list[dict[str, object]]:
        """The films in the folders, by relative path; of very many the first."""
        films: dict[str, dict[str, object]] = {}
        for relative, file in islice(self._films(), _MOST_FILMS):
            # Of equal paths the first folder's counts, as in `resolve`.
            films.setdefault(relative, {"path": relative, "bytes": file.stat().st_size})
        return list(films.values())

    def _films(self) -> Iterator[tuple[str, Path]]:
        for folder in self._folders:
            for file in files_below(folder):
                if file.suffix.lower() in FILM_ENDINGS:
                    target = file.resolve()
                    if any(target.is_relative_to(each) for each in self._folders):
                        yield file.relative_to(folder).as_posix(), file
