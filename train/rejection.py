"""Rejection sampling: a policy's own correct programs as rows to fine-tune on, a baseline for GRPO.

    videopro rejection --model pocket --adapter runs/sft --data grpo.jsonl --output own.jsonl

Samples `samples` programs for every prompt, runs them as GRPO's rewards do, and keeps those that are correct
and well-formed (accuracy and format, Eq. 3). Programs that differ only in comments or layout count once per
prompt. `own.jsonl` is for train/sft.py. Re-run the same command to resume: samples so far are kept in
`OUTPUT.samples`. Started again while it runs, the same command shares the work, as do the processes of
`accelerate launch -m videopro.train.rejection ...`, each on its GPU. A larger --limit adds prompts.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

from videopro.backbones import (
    Backbone,
    GenerateRequest,
    Sampling,
    Visual,
    load_backbone,
    model_needs,
    own_model,
    read_spec,
)
from videopro.benchmarks import ROBUST, Benchmark, Item, Protocol
from videopro.cli import Counter, build_settings, check_needs, exit_status, needs_extra
from videopro.engine import Walk, lease, units
from videopro.errors import (
    ConfigError,
    DatasetError,
    NativeError,
    RunError,
    VideoError,
    failure_lines,
    unexpected_as,
    writing_file,
)
from videopro.executor import Program, parse_program
from videopro.methods import named_plugins
from videopro.methods.planners import load_answerer
from videopro.methods.program import derive_seed, program_needs
from videopro.modules import ModuleModels, ModuleSettings
from videopro.storage import JsonLinesLog, SetAside, parse_json, write_atomically
from videopro.train.settings import REJECTION, RejectionConfig
from videopro.video import Video

with needs_extra("train", "videopro rejection", __name__):
    import torch

    from videopro.train.rewards import ProgramRewards, score
    from videopro.train.rl import GRPORow, read_grpo_rows
    from videopro.train.runtime import PLACEHOLDER, digest


_MODULES_FLAG = "--modules {part}=none"


def sample(
    rows: Sequence[GRPORow],
    policy: Backbone,
    rewards: ProgramRewards,
    config: RejectionConfig,
    keep: Callable[[dict[str, list[str]]], None],
) -> str:
    """Sample and run programs for prompts about one video. Calls `keep` with the correct, well-formed replies
    to each row of a batch, by its id. Returns why the video cannot be read; "" if it can."""
    path, unread = rows[0].video, ""
    with ExitStack() as stack:
        visual: Visual | None = None
        try:
            # A video that cannot be read does not change the prompts without a video.
            if any(row.prompt_video for row in rows):
                with unexpected_as(NativeError):
                    video = Video.open(path, nearest_intact=config.nearest_intact)
                    # As the policy sees it in inference, encoded once for all prompts about it.
                    size = policy.frame_size(video.height, video.width, policy.frames)
                    visual = stack.enter_context(policy.prefix(video.sample(policy.frames, size=size)))
        except (VideoError, NativeError) as error:
            unread = str(error)
            rows = [row for row in rows if not row.prompt_video]
        # All samples of a prompt are in one batch.
        at_once = max(1, config.batch_size // config.samples)
        for start in range(0, len(rows), at_once):
            batch = rows[start : start + at_once]
            drawn = [(row, number) for row in batch for number in range(config.samples)]
            requests = [
                GenerateRequest(
                    visual if row.prompt_video else None,
                    row.prompt,
                    derive_seed(config.seed, row.id, number),
                )
                for row, number in drawn
            ]
            written = policy.generate_batch(requests, Sampling(config.max_new_tokens, config.temperature))
            # The rewards turn the adapter off for each call. A block around all of them would belong to this
            # thread, and the programs would wait for it forever.
            turns = rewards.run([row for row, _ in drawn], [reply.text for reply in written])
            correct: dict[str, list[str]] = {row.id: [] for row in batch}
            for (row, _), turn in zip(drawn, turns, strict=True):
                if (execution := turn.outcome.execution) is not None:
                    earned = score(row.kind, row.right, row.oracle_mode, (turn.program, execution))
                    if earned.accuracy == earned.format == 1:
                        correct[row.id].append(turn.reply)
            keep(correct)
    return unread


def distinct(replies: Iterable[str]) -> list[tuple[str, Program]]:
    """The first reply with each distinct program, and that program, in order."""
    programs: dict[str, tuple[str, Program]] = {}
    for reply in replies:
        program = parse_program(reply)
        programs.setdefault(program.digest, (reply, program))
    return list(programs.values())


def as_rows(prompt: GRPORow, replies: Sequence[str]) -> list[dict[str, Any]]:
    """The replies as rows of `sft.jsonl`."""
    has_video = prompt.prompt_video
    reference = {"reference": prompt.reference, "modules": list(prompt.modules)}
    return [
        {
            "messages": [
                {"role": "user", "content": (PLACEHOLDER if has_video else "") + prompt.prompt},
                {"role": "assistant", "content": reply},
            ],
            **({"videos": [str(prompt.video)]} if has_video else {}),
            "id": f"{prompt.id}/own-{number}",
            "kind": program.mode if prompt.kind == "plan" else prompt.kind,
            **(reference if prompt.reference != "none" else {}),
        }
        for number, (reply, program) in enumerate(distinct(replies))
    ]


def run(config: RejectionConfig) -> str:
    """Run the whole command. Returns a summary to print ("" on ranks above 0). Raises VideoProError for
    errors the user can fix."""
    prompts = _read_prompts(config)
    # The limit only adds prompts; the batch size and the number of workers change only the duration.
    identity = {**asdict(config), "limit": None, "batch_size": None, "workers": None}
    identity["rows"] = digest(config.data)
    identity |= named_plugins({"model": config.model, "answerer": config.answerer, **config.modules})
    rank, skipped = int(os.environ.get("RANK", "0")), list[str]()
    with _Samples(config.output, json.loads(json.dumps(identity, default=str))) as samples:
        if left := samples.open(prompts):
            policy, rewards = _load(config)
            with rewards, Counter("sampling programs", visible=rank == 0) as counter:
                counter.start(len(prompts) - len(left))
                skipped = _sample_all(prompts, policy, rewards, config, samples, counter)
        done = samples.correct
    if rank > 0:
        return ""
    # A row whose video cannot be read has no replies.
    replies_to = [done.get(prompt.id, []) for prompt in prompts]
    own_rows = [row for each in zip(prompts, replies_to, strict=True) for row in as_rows(*each)]
    if not own_rows:
        reason = f"no correct program for any of {len(prompts)} prompts; raise samples or temperature"
        raise RunError("\n".join((reason, *skipped)))
    with writing_file(config.output, "pass another --output"):
        write_atomically(config.output, "".join(json.dumps(row) + "\n" for row in own_rows))
    made = (
        f"{config.output}: {len(own_rows)} programs, of {sum(map(len, replies_to))} correct among "
        f"{config.samples * len(prompts)}; {sum(map(bool, replies_to))} of {len(prompts)} prompts have one"
    )
    return "\n".join((made, *skipped))


def _sample_all(
    prompts: Sequence[GRPORow],
    policy: Backbone,
    rewards: ProgramRewards,
    config: RejectionConfig,
    samples: _Samples,
    counter: Counter,
) -> list[str]:
    """Sample for every open prompt that no other process works on, and wait for those. Returns lines that
    name the videos and rows that were skipped, and why."""
    unread: list[tuple[str, str, str]] = []
    rows, walk = {row.id: row for row in prompts}, Walk(units(_items(prompts)))

    def keep(correct: dict[str, list[str]]) -> None:
        samples.add(correct)
        # What other processes sampled counts too.
        counter.update(len(prompts) - len(samples.open(prompts)), len(prompts))

    while (unit := walk.take()) is not None:
        asked = [rows[item.id] for item in unit.items]
        if not samples.open(asked):
            continue
        with lease(samples.leases, unit) as is_ours:
            if not is_ours:
                walk.put_off(unit)
                continue
            # The log now has what the lease's last holder sampled.
            left = samples.open(asked)
            if left and (why := sample(left, policy, rewards, config, keep)):
                unread.append((str(left[0].video), "", why))
    lines = ["videos that cannot be read:", *failure_lines(unread)] if unread else []
    return lines + rewards.left_out_lines


def _items(rows: Iterable[GRPORow]) -> list[Item]:
    """The rows as questions, which are selected and shared by video."""
    return [Item(row.id, row.video, str(row.video), row.question, row.answer) for row in rows]


def _read_prompts(config: RejectionConfig) -> list[GRPORow]:
    """The prompts that a backbone can take; prints how many rows are skipped. Raises DatasetError if none is
    left."""
    file = read_grpo_rows(config.data, config.kinds)
    print(file.summary(), file=sys.stderr)
    # A backbone is asked with the video first.
    usable = [row for row in file.rows if row.system is None and not row.before]
    if not usable:
        raise DatasetError(f"{config.data}: no row begins with its video, so there is no prompt to sample")
    if unusable := len(file.rows) - len(usable):
        print(
            f"{unusable} rows skipped: they have a system turn or text before the video, but backbones take "
            "the video first",
            file=sys.stderr,
        )
    asked = Benchmark(str(config.data), "", _items(usable), Protocol(parser=ROBUST))
    chosen = {item.id for item in asked.select(limit=config.limit, seed=config.seed)}
    return [row for row in usable if row.id in chosen]


class _Samples:
    """The correct replies to each prompt, in the file `OUTPUT.samples`, to which several processes append.
    Raises RunError if other settings were used."""

    def __init__(self, output: Path, identity: Any) -> None:
        path = output.with_name(f"{output.name}.samples")
        self.leases = output.with_name(f"{output.name}.leases")
        self.correct: dict[str, list[str]] = {}
        """By the row's id."""
        self._log = JsonLinesLog(path, make_folder=True)
        self._set_aside = SetAside(path, "a prompt without other lines is sampled again")
        self._read = self._lines = 0
        # Of several that start at once, the first one writes the settings.
        with self._log.locked():
            self._log.cut_torn_tail()
            (first, *_) = self._log.read().split(b"\n")
            if first:
                self._check(first, identity)
            else:
                self._log.append({"settings": identity})

    def __enter__(self) -> Self:
        with writing_file(self.leases):
            self.leases.mkdir(exist_ok=True)
        return self

    def __exit__(self, *exc: object) -> None:
        self._log.close()

    def open(self, rows: Iterable[GRPORow]) -> list[GRPORow]:
        """The rows for which nobody has sampled so far."""
        new = self._log.read(self._read)
        self._read += len(new)
        for text in new.split(b"\n")[:-1]:
            self._lines += 1
            if self._lines > 1:
                try:
                    line = parse_json(text)
                    self.correct[line["id"]] = line["right"]
                except (ValueError, KeyError, TypeError) as error:
                    self._set_aside.add(self._lines, error)
        self._set_aside.tell()
        return [row for row in rows if row.id not in self.correct]

    def add(self, correct: dict[str, list[str]]) -> None:
        """Record the correct replies to rows."""
        self._log.append(*({"id": row, "right": replies} for row, replies in correct.items()))

    def _check(self, first: bytes, identity: Any) -> None:
        try:
            settings = dict(parse_json(first)["settings"])
        except (ValueError, KeyError, TypeError) as error:
            raise RunError(
                f"{self._log.path}: no sampling settings in its first line ({error}); pass another --output"
            ) from error
        differing = [name for name in identity if settings.get(name) != identity[name]]
        if differing:
            raise RunError(
                f"{self._log.path}: was sampled with other settings ({', '.join(differing)}); pass another "
                "--output"
            )


def _load(config: RejectionConfig) -> tuple[Backbone, ProgramRewards]:
    model = read_spec(config.model, batch_size=config.batch_size, adapter=config.adapter)
    settings = build_settings(ModuleSettings, config.modules, "modules")
    inside = program_needs(settings, model, answerer=config.answerer, flag=_MODULES_FLAG)
    check_needs([*model_needs(model), *inside])
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
    policy = load_backbone(model)
    answerer = load_answerer(config.answerer, policy)
    if answerer is policy and config.adapter is None and config.answerer is None:
        raise ConfigError(
            "adapter is not set, but the base model without an adapter answers inside programs; set adapter "
            "or answerer"
        )
    models = ModuleModels(settings, answering=own_model(answerer), flag=_MODULES_FLAG)
    return policy, ProgramRewards(
        answerer,
        modules=models,
        workers=config.workers,
        reasoned=config.reasoned_confidence,
        nearest_intact=config.nearest_intact,
    )


COMMAND = REJECTION


def main(argv: Sequence[str] | None = None) -> int:
    """The command line. Returns the exit status."""
    with exit_status() as status:
        config = REJECTION.parse(argv)
        if said := run(config):
            print(said)
    return status.code


if __name__ == "__main__":
    sys.exit(main())
