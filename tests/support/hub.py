"""A hub on this machine, for tests: the routes of huggingface.co that its client calls to push and pull, with
repositories in memory. The client is the real one, and talks HTTP to it.

The routes and their bodies are those of the client's own code and of Git LFS's batch protocol; hashes are
git's (blobs) and SHA-256 (large files), which the client checks.
"""

import base64
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
import yaml

TOKEN = "hf_" + "aB3dE5gH7j" * 3
USER = "mina"


@dataclass
class Repository:
    """A repository: the files of each commit."""

    private: bool
    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)
    """By hash, the latest last."""
    gate: str | bool = False
    """How access is given, as the hub says it: "auto", "manual", or False for a repository without a gate."""
    sizes: dict[str, int] = field(default_factory=dict)
    """Sizes of files that are too large to be here, in the listing."""
    renamed: str = ""
    """Its name today; empty: the one that it was added with."""

    @property
    def head(self) -> str:
        return next(reversed(self.commits))

    @property
    def files(self) -> dict[str, bytes]:
        return self.commits[self.head]

    def commit(self, files: Mapping[str, bytes]) -> str:
        """Add a commit that has these files."""
        digest = hashlib.sha1(f"{len(self.commits)}".encode())
        for name in sorted(files):
            digest.update(name.encode() + files[name])
        self.commits[digest.hexdigest()] = dict(files)
        return digest.hexdigest()


class Hub(ThreadingHTTPServer):
    """The server. `repositories`: by type and name, as ("model", "mina/planner")."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.repositories: dict[tuple[str, str], Repository] = {}
        self.large: dict[str, bytes] = {}
        """Uploaded large files, by SHA-256."""
        self.requests: list[str] = []
        """"METHOD path" of each request."""
        self.refused: str | None = None
        """The request that is refused, as in `requests`."""
        self.damage: dict[str, bytes] = {}
        """Path in a repository -> what is sent in place of its content."""
        self.gated: set[str] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def add(self, kind: str, name: str, files: Mapping[str, bytes], *, private: bool = False) -> Repository:
        """A repository that has these files."""
        repository = self.repositories[kind, name] = Repository(private)
        repository.commit(files)
        return repository


def blob_id(content: bytes) -> str:
    """Git's hash of a blob."""
    return hashlib.sha1(f"blob {len(content)}\0".encode() + content).hexdigest()


def is_large(path: str) -> bool:
    """Whether the hub stores a file as a large one; it goes by .gitattributes."""
    return path.endswith((".safetensors", ".bin"))


def content_id(path: str, content: bytes) -> str:
    """What the hub knows a file's content by."""
    return hashlib.sha256(content).hexdigest() if is_large(path) else blob_id(content)


@contextmanager
def running_hub() -> Iterator[Hub]:
    """A hub that serves within the block."""
    hub = Hub()
    thread = Thread(target=hub.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        hub.shutdown()
        hub.server_close()
        thread.join()


@contextmanager
def connected(hub: Hub, monkeypatch: pytest.MonkeyPatch, cache: Any) -> Iterator[Hub]:
    """Point the client of this process to the hub, with a token, and a cache of its own."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "ENDPOINT", hub.url)
    template = "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", hub.url + template)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    # Large files by Git LFS's protocol: the store behind Xet is no part of the hub.
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    yield hub


_ROUTE = re.compile(
    r"/api/(?P<kind>model|dataset)s/(?P<name>[^/]+/[^/]+)(?:/(?P<what>revision|tree|preupload|commit|auth-check))?"
    r"(?:/(?P<revision>[^/]+))?(?P<path>/.*)?"
)
_LARGE = re.compile(r"/(datasets/)?[^/]+/[^/]+\.git/info/lfs/objects/batch")
_FILE = re.compile(r"/(?P<kind>datasets/)?(?P<name>[^/]+/[^/]+)/resolve/(?P<revision>[^/]+)/(?P<path>.+)")


class _Refusal(Exception):
    """What the hub answers: status, code and message."""


class _Handler(BaseHTTPRequestHandler):
    server: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        request = f"{self.command} {path}"
        self.server.requests.append(request)
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            if request == self.server.refused:
                raise _Refusal(403, "Refused", "refused by the test")
            self._route(path)
        except _Refusal as refusal:
            status, code, message = refusal.args
            self._send(status, {"error": message}, {"X-Error-Code": code, "X-Error-Message": message})

    def _route(self, path: str) -> None:
        if path == "/api/repos/create":
            return self._create()
        if path == "/api/validate-yaml":
            return self._validate()
        if path.startswith("/large/"):
            self.server.large[path.removeprefix("/large/")] = self.body
            return self._send(200, {})
        if _LARGE.fullmatch(path):
            return self._batch()
        if match := _FILE.fullmatch(path):
            kind = "dataset" if match["kind"] else "model"
            return self._file(kind, match["name"], match["revision"], match["path"])
        if match := _ROUTE.fullmatch(path):
            return self._repository(match)
        return self._send(404, {"error": f"no route {self.command} {path}"})

    do_HEAD = do_POST = do_PUT = do_GET

    @property
    def _is_known(self) -> bool:
        return self.headers.get("Authorization") == f"Bearer {TOKEN}"

    def _send(self, status: int, content: Any, headers: Mapping[str, str] | None = None) -> None:
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        headers = {"Content-Length": str(len(body)), **(headers or {})}
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _create(self) -> None:
        asked = json.loads(self.body)
        name = f"{asked['organization'] or USER}/{asked['name']}"
        if not self._is_known:
            return self._send(401, {"error": "Invalid username or password."})
        kind = asked.get("type") or "model"
        if (kind, name) in self.server.repositories:
            made = {"error": "You already created this repo", "url": f"{self.server.url}/{name}"}
            return self._send(409, made)
        private = asked.get("visibility") == "private" or asked.get("private") is True
        self.server.add(kind, name, {".gitattributes": b"*.safetensors filter=lfs\n"}, private=private)
        prefix = "datasets/" if kind == "dataset" else ""
        return self._send(200, {"url": f"{self.server.url}/{prefix}{name}", "name": name})

    def _validate(self) -> None:
        data = yaml.safe_load(json.loads(self.body)["content"].split("---")[1])
        errors = [] if isinstance(data, dict) else [{"message": "the metadata is no mapping"}]
        return self._send(400 if errors else 200, {"errors": errors, "warnings": []})

    def _find(self, kind: str, name: str, revision: str | None) -> tuple[Repository, str]:
        repository = self.server.repositories.get((kind, name))
        if repository is None or (repository.private and not self._is_known):
            raise _Refusal(404 if self._is_known else 401, "RepoNotFound", "Repository not found")
        if name in self.server.gated:
            raise _Refusal(403, "GatedRepo", f"Access to {kind} {name} is restricted")
        commit = repository.head if revision in (None, "main") else revision
        if commit not in repository.commits:
            raise _Refusal(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        return repository, str(commit)

    def _repository(self, match: re.Match[str]) -> None:
        repository, commit = self._find(match["kind"], match["name"], match["revision"])
        files = repository.commits[commit]
        if match["what"] == "auth-check":
            return self._send(200, {})
        if match["what"] in (None, "revision"):
            about = {
                "_id": "1",
                "id": repository.renamed or match["name"],
                "sha": commit,
                "private": repository.private,
            }
            about["gated"] = repository.gate
            siblings = [{"rfilename": name} for name in files]
            return self._send(200, {**about, "siblings": siblings, "tags": [], "downloads": 0, "likes": 0})
        if match["what"] == "tree":
            entries = [_entry(name, content) for name, content in sorted(files.items())]
            large = [{**_entry(name, b""), "size": size} for name, size in repository.sizes.items()]
            return self._send(200, entries + large)
        if match["what"] == "preupload":
            return self._send(200, {"files": [_mode(one, files) for one in json.loads(self.body)["files"]]})
        return self._commit(repository, dict(files), match["name"])

    def _commit(self, repository: Repository, files: dict[str, bytes], name: str) -> None:
        for line in self.body.splitlines():
            change = json.loads(line)
            value = change["value"]
            if change["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif change["key"] == "lfsFile":
                files[value["path"]] = self.server.large[value["oid"]]
        commit = repository.commit(files)
        url = f"{self.server.url}/{name}/commit/{commit}"
        return self._send(200, {"success": True, "commitOid": commit, "commitUrl": url, "hookOutput": ""})

    def _batch(self) -> None:
        objects = []
        for one in json.loads(self.body)["objects"]:
            answer: dict[str, Any] = {"oid": one["oid"], "size": one["size"]}
            if one["oid"] not in self.server.large:
                answer["actions"] = {"upload": {"href": f"{self.server.url}/large/{one['oid']}"}}
            objects.append(answer)
        return self._send(200, {"transfer": "basic", "objects": objects})

    def _file(self, kind: str, name: str, revision: str, path: str) -> None:
        repository, commit = self._find(kind, name, revision)
        if path not in repository.commits[commit]:
            raise _Refusal(404, "EntryNotFound", "Entry not found")
        content = repository.commits[commit][path]
        headers = {
            "ETag": f'"{content_id(path, content)}"',
            "X-Repo-Commit": commit,
            "Accept-Ranges": "bytes",
        }
        return self._send(200, self.server.damage.get(path, content), headers)


def _entry(path: str, content: bytes) -> dict[str, Any]:
    entry: dict[str, Any] = {"type": "file", "path": path, "size": len(content), "oid": blob_id(content)}
    if is_large(path):
        entry["lfs"] = {"oid": content_id(path, content), "size": len(content), "pointerSize": 134}
    return entry


def _mode(asked: Mapping[str, Any], files: Mapping[str, bytes]) -> dict[str, Any]:
    path = asked["path"]
    mode = {"path": path, "uploadMode": "lfs" if is_large(path) else "regular", "shouldIgnore": False}
    return {**mode, "oid": content_id(path, files[path])} if path in files else mode
