"""Rejection sampling: a policy's own correct programs as rows to fine-tune on, a baseline for GRPO.

    videopro rejection --model pocket --adapter runs/sft --data grpo.jsonl --output own.jsonl

Samples `samples` programs for every prompt, runs them as GRPO's rewards do, and keeps those that are correct
and well-formed (accuracy and format, Eq. 3). Programs that differ only in comments or layout count once per
prompt. `own.jsonl` is for train/sft.py. Re-run the same command to resume: samples so far are kept in
`OUTPUT.samples`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

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
from videopro.cli import Counter, build_settings, check_needs, exit_status, needs_extra
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
    from videopro.train.rewards import ProgramRewards, score
    from videopro.train.rl import GRPORow, read_grpo_rows
    from videopro.train.runtime import PLACEHOLDER, digest


_MODULES_FLAG = "--modules {part}=none"


def sample(
    rows: Sequence[GRPORow],
    policy: Backbone,
    rewards: ProgramRewards,
    config: RejectionConfig,
    keep: Callable[[str, list[str]], None],
) -> list[str]:
    """Sample and run programs for each prompt. Calls `keep` with each row's id and its correct, well-formed
    replies. Returns lines that name the videos and rows that were skipped, and why."""
    unread: list[tuple[str, str, str]] = []
    groups: dict[Path, list[GRPORow]] = {}
    for row in rows:
        groups.setdefault(row.video, []).append(row)
    for path, video_rows in groups.items():
        with ExitStack() as stack:
            visual: Visual | None = None
            try:
                # A video that cannot be read does not change the prompts without a video.
                if any(row.prompt_video for row in video_rows):
                    with unexpected_as(NativeError):
                        video = Video.open(path, nearest_intact=config.nearest_intact)
                        # As the policy sees it in inference, encoded once for all prompts about it.
                        size = policy.frame_size(video.height, video.width, policy.frames)
                        visual = stack.enter_context(policy.prefix(video.sample(policy.frames, size=size)))
            except (VideoError, NativeError) as error:
                unread.append((str(path), "", str(error)))
                video_rows = [row for row in video_rows if not row.prompt_video]
            # All samples of a prompt are in one batch.
            at_once = max(1, config.batch_size // config.samples)
            for start in range(0, len(video_rows), at_once):
                batch = video_rows[start : start + at_once]
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
                # The rewards turn the adapter off for each call. A block around all of them would belong to
                # this thread, and the programs would wait for it forever.
                turns = rewards.run([row for row, _ in drawn], [reply.text for reply in written])
                correct: dict[str, list[str]] = {row.id: [] for row in batch}
                for (row, _), turn in zip(drawn, turns, strict=True):
                    if (execution := turn.outcome.execution) is not None:
                        earned = score(row.kind, row.right, row.oracle_mode, (turn.program, execution))
                        if earned.accuracy == earned.format == 1:
                            correct[row.id].append(turn.reply)
                for name, replies in correct.items():
                    keep(name, replies)
    lines = ["videos that cannot be read:", *failure_lines(unread)] if unread else []
    return lines + rewards.left_out_lines


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
    """Run the whole command. Returns a summary to print. Raises VideoProError for errors the user can fix."""
    prompts = _read_prompts(config)
    log = config.output.with_name(config.output.name + ".samples")
    # The batch size and the number of workers change only the duration.
    identity = {**asdict(config), "batch_size": None, "workers": None, "rows": digest(config.data)}
    identity |= named_plugins({"model": config.model, "answerer": config.answerer, **config.modules})
    identity = json.loads(json.dumps(identity, default=str))
    right = JsonLinesLog(log, make_folder=True)
    try:
        if not right.hold():
            raise RunError(f"{log}: another command is sampling; wait for it, or pass another --output")
        done = _sampled_earlier(log, identity)
        if not done:
            right.append({"settings": identity})
        skipped: list[str] = []
        open_rows = [row for row in prompts if row.id not in done]
        if open_rows:
            policy, rewards = _load(config)

            def keep(row: str, replies: list[str]) -> None:
                right.append({"id": row, "right": replies})
                done[row] = replies
                counter.advance()

            with rewards, Counter("sampling programs", len(prompts)) as counter:
                counter.start(len(prompts) - len(open_rows))
                skipped = sample(open_rows, policy, rewards, config, keep)
    finally:
        right.close()
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
    return usable


def _sampled_earlier(log: Path, identity: Any) -> dict[str, list[str]]:
    """The correct replies of rows sampled earlier, by id. Raises RunError if other settings were used."""
    text = log.read_text(encoding="utf-8")
    # A line that a killed process left incomplete is cut off when the log is opened.
    complete = text[: text.rfind("\n") + 1]
    set_aside = SetAside(log, "a prompt without other lines is sampled again")
    correct: dict[str, list[str]] = {}
    for number, text in enumerate(complete.split("\n")[:-1], start=1):
        try:
            line = parse_json(text)
            if number == 1:
                settings = dict(line["settings"])
            else:
                correct[line["id"]] = line["right"]
        except (ValueError, KeyError, TypeError) as error:
            if number == 1:
                raise RunError(
                    f"{log}: no sampling settings in its first line ({error}); pass another --output"
                ) from error
            set_aside.add(number, error)
    set_aside.tell()
    if complete and settings != identity:
        differing = [name for name in identity if settings.get(name) != identity[name]]
        raise RunError(
            f"{log}: was sampled with other settings ({', '.join(differing)}); pass another --output"
        )
    return correct


def _load(config: RejectionConfig) -> tuple[Backbone, ProgramRewards]:
    model = read_spec(config.model, batch_size=config.batch_size, adapter=config.adapter)
    settings = build_settings(ModuleSettings, config.modules, "modules")
    inside = program_needs(settings, model, answerer=config.answerer, flag=_MODULES_FLAG)
    check_needs([*model_needs(model), *inside])
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
        print(run(config))
    return status.code


if __name__ == "__main__":
    sys.exit(main())
