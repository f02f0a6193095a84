"""Films that are uploaded in parts, as by OpenAI's Uploads: begun with a name and a size, then parts in any
order, then completed with the order of the parts."""

from __future__ import annotations

import hashlib
import threading
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from videopro.serve.films import Film, FilmStore
from videopro.serve.problems import Problem
from videopro.storage import printable

PART_BYTES = 64 * 2**20
"""Largest part, as OpenAI's."""
_SECONDS = 3600
_MOST_PENDING = 64
_CHUNK = 2**20


@dataclass
class Upload:
    """A film on its way."""

    name: str
    bytes: int
    """As its client says."""
    id: str = field(default_factory=lambda: f"upload_{uuid.uuid4().hex}")
    created_at: int = field(default_factory=lambda: int(time.time()))
    status: Literal["pending", "completed", "cancelled"] = "pending"
    parts: dict[str, Path] = field(default_factory=dict)
    received: int = 0
    """Bytes of its parts so far."""

    def as_object(self) -> dict[str, Any]:
        """As OpenAI's upload object."""
        return {
            "id": self.id,
            "object": "upload",
            "bytes": self.bytes,
            "created_at": self.created_at,
            "expires_at": self.created_at + _SECONDS,
            "filename": self.name,
            "purpose": "user_data",
            "status": self.status,
        }


class Uploads:
    """The uploads of a server. What is not completed within an hour is removed. Thread-safe."""

    def __init__(self, films: FilmStore, film_bytes: int) -> None:
        self._films = films
        self._film_bytes = film_bytes
        self._lock = threading.Lock()
        self._uploads: dict[str, Upload] = {}

    def begin(self, name: str, size: int) -> Upload:
        """Begin an upload. Raises Problem if it is too large, or too many are under way."""
        self._remove_expired()
        with self._lock:
            promised = sum(each.bytes for each in self._uploads.values())
            if not 0 < size <= min(self._film_bytes, self._films.room() - promised):
                most = max(0, min(self._film_bytes, self._films.room() - promised))
                message = f"bytes is {size:,}; this server takes 1 to {most:,} bytes now"
                raise Problem(413, message, code="too_large", param="bytes")
            if len(self._uploads) >= _MOST_PENDING:
                message = f"{_MOST_PENDING} uploads are under way; try again when some are completed"
                raise Problem(429, message, code="too_many_uploads", retry_after=30)
            upload = Upload(name, size)
            self._uploads[upload.id] = upload
            return upload

    def room(self, id: str) -> int:
        """How many bytes the next part may have. Raises Problem for an unknown upload."""
        self._remove_expired()
        with self._lock:
            upload = self._pending(id)
            return min(PART_BYTES, upload.bytes - upload.received)

    def add_part(self, id: str, part: Path, size: int) -> dict[str, Any]:
        """Take a part, a file of the store's `incoming`. Raises Problem, and the part is gone then."""
        name = f"part_{uuid.uuid4().hex}"
        try:
            with self._lock:
                upload = self._pending(id)
                # Others may have come since its room was looked up.
                if upload.received + size > upload.bytes:
                    message = (
                        f"the parts are longer than the {upload.bytes:,} bytes that the upload was to have"
                    )
                    raise Problem(400, message, code="too_large", param="data")
                upload.received += size
                upload.parts[name] = part
        except Problem:
            part.unlink(missing_ok=True)
            raise
        return {"id": name, "object": "upload.part", "created_at": int(time.time()), "upload_id": id}

    def complete(self, id: str, part_ids: list[str], md5: str | None) -> tuple[Upload, Film]:
        """Join the parts, in this order. Raises Problem if some are missing, the film is not as long as was
        said or has another hash, or is no film; the upload is over in any case."""
        with self._lock:
            upload = self._pending(id)
            unknown = [name for name in part_ids if name not in upload.parts]
            if unknown or len({*part_ids}) != len(part_ids):
                wrong = printable((unknown or part_ids)[0], 60)
                message = f"part_ids: {wrong!r} is no part of this upload, or is named twice"
                raise Problem(400, message, code="no_part", param="part_ids")
            del self._uploads[id]
        try:
            joined, digest, found_md5 = self._join([upload.parts[name] for name in part_ids])
            size = joined.stat().st_size
            problem = None
            if size != upload.bytes:
                problem = f"the parts have {size:,} bytes together, and {upload.bytes:,} were announced"
            elif md5 is not None and md5.lower() != found_md5:
                problem = f"the MD5 of the parts is {found_md5}, not {printable(md5, 40)}; upload them again"
            if problem is not None:
                joined.unlink()
                raise Problem(400, problem, code="incomplete", param="part_ids")
            film = self._films.add(joined, upload.name, digest)
        finally:
            _remove(upload)
        upload.status = "completed"
        return upload, film

    def cancel(self, id: str) -> Upload:
        """Give an upload up. Raises Problem for an unknown one."""
        with self._lock:
            upload = self._pending(id)
            del self._uploads[id]
        _remove(upload)
        upload.status = "cancelled"
        return upload

    def _pending(self, id: str) -> Upload:
        upload = self._uploads.get(id)
        if upload is None:
            message = f"there is no upload {printable(id, 60)!r} under way; begin one with POST /v1/uploads"
            raise Problem(404, message, code="no_upload")
        return upload

    def _join(self, parts: list[Path]) -> tuple[Path, str, str]:
        joined = self._films.new_part()
        digest, md5 = hashlib.sha256(), hashlib.md5(usedforsecurity=False)
        try:
            with joined.open("xb") as out:
                for part in parts:
                    with part.open("rb") as file:
                        while chunk := file.read(_CHUNK):
                            digest.update(chunk)
                            md5.update(chunk)
                            out.write(chunk)
                    # At once: the film is not on the disk twice.
                    part.unlink()
        except BaseException:
            joined.unlink(missing_ok=True)
            raise
        return joined, digest.hexdigest(), md5.hexdigest()

    def _remove_expired(self) -> None:
        now = time.time()
        with self._lock:
            expired = [each for each in self._uploads.values() if now > each.created_at + _SECONDS]
            for upload in expired:
                del self._uploads[upload.id]
        for upload in expired:
            _remove(upload)


def _remove(upload: Upload) -> None:
    for part in upload.parts.values():
        part.unlink(missing_ok=True)
