"""A synthesis folder: its records (records.jsonl, config.yaml, work/) and the datasets made from them."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from videopro.cli import read_yaml
from videopro.data_synthesis.card import CARD_JSON, CARD_MD
from videopro.data_synthesis.datasets import GRPO, HELD_OUT, SFT
from videopro.errors import ConfigError, RunError, cannot_lock, cannot_write
from videopro.runs import RunFolder
from videopro.storage import parse_json, write_atomically


class SynthesisFolder(RunFolder):
    """A run's folder whose traces are the records of a synthesis."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.traces = path / "records.jsonl"
        self.replies = self.work / "replies.jsonl"
        self.plan_json = self.work / "plan.json"
        self.reservations = self.work / "reserved"
        self.sft, self.grpo = path / SFT, path / GRPO
        self.held_out = path / HELD_OUT
        self.card_json, self.card_md = path / CARD_JSON, path / CARD_MD

    @contextmanager
    def finishing(self) -> Iterator[None]:
        """Let one command at a time write datasets and card. Raises RunError."""
        path = self.work / "finish.lock"
        try:
            self.work.mkdir(parents=True, exist_ok=True)
            file = path.open("w")
        except OSError as error:
            raise RunError(cannot_write(path, error)) from error
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX)
            except OSError as error:
                raise RunError(cannot_lock(path, error)) from error
            yield

    def plan(self) -> dict[str, Any] | None:
        """The plan that was made before its questions were asked; None: none were."""
        try:
            plan = parse_json(self.plan_json.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise RunError(f"{self.plan_json}: cannot be read ({error}); delete it") from error
        return dict(plan)

    def keep_plan(self, plan: Mapping[str, Any]) -> None:
        """Keep a plan, unless the folder has one of the same questions and limits, which was made before
        anything was spent on them. Raises RunError."""
        before = self.plan()
        if before is not None and before.get("asks") == plan["asks"]:
            return
        try:
            write_atomically(self.plan_json, json.dumps(plan, indent=1, ensure_ascii=False) + "\n")
        except OSError as error:
            raise RunError(cannot_write(self.plan_json, error)) from error

    def settings(self) -> dict[str, Any]:
        """The contents of config.yaml. Raises RunError for a folder without one, or of another kind."""
        try:
            content = read_yaml(self.config)
        except ConfigError as error:
            raise RunError(f"{self.path}: is not a synthesis folder ({error})") from error
        if "synthesis" not in content.get("identity", {}):
            raise RunError(
                f"{self.path}: is not a synthesis folder; its config.yaml belongs to something else"
            )
        return content
