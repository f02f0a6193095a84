"""Synthesis of a small world with a teacher behind a stub server, and what it leaves, for tests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.stub_server import StubServer, completion, text_of
from tests.support.synthesis_world import NO_MODELS, make_questions, teach
from videopro.modules import library as module_library
from videopro.modules.calls import CallCache

KEY = "sk-very-secret-key"


@pytest.fixture(autouse=True)
def own_world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(module_library, "_cache", CallCache())
    monkeypatch.setenv("VIDEOPRO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("TEACHER_KEY", KEY)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three videos with three questions each: native answers are right, unsure and wrong in turn."""
    folder = tmp_path_factory.mktemp("colours")
    make_questions(folder)
    return folder


def said(text: str) -> dict[str, Any]:
    made = completion(text, None, prompt_tokens=100)
    made["usage"]["completion_tokens"] = 10
    return made


@pytest.fixture
def stub() -> Iterator[StubServer]:
    with StubServer(lambda body: said(teach(text_of(body), body["seed"])), key=KEY) as server:
        yield server


def flags(root: Path, output: Path, stub: StubServer, *more: str) -> list[str]:
    source = ["--source", "jsonl", "--root", str(root), "--model", "m", "--output", str(output)]
    teacher = ["--teacher", f"api:served@{stub.url}", "--api-key-env", "TEACHER_KEY"]
    return [*source, *teacher, *NO_MODELS, *more]


def rows(folder: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / name).read_text().splitlines()]


def datasets(folder: Path) -> tuple[bytes, bytes]:
    return (folder / "sft.jsonl").read_bytes(), (folder / "grpo.jsonl").read_bytes()
