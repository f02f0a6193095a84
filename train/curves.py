"""Plots the learning curves of GRPO runs: rewards by name, share of native, lengths, KL and entropy.

    videopro curves RUN [RUN ...] [--output FOLDER]

Reads what the runs logged (`training_record.json`, or the last checkpoint of an unfinished run) and writes
`curves.png` and `curves.svg` to the run's folder or to `--output`. Several runs, such as seeds, are drawn as
thin lines under their mean.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from transformers.trainer_utils import get_last_checkpoint

from videopro.cli import exit_status
from videopro.errors import RunError
from videopro.extras import needs_extra
from videopro.storage import parse_json
from videopro.train.settings import CURVES

with needs_extra("train", "videopro curves", __name__, CURVES.print_help):
    from matplotlib.figure import Figure

    from videopro.train.runtime import RECORD


History = Sequence[Mapping[str, Any]]
Series = dict[int, float]

# For each panel: its title, and the label of each logged value that it shows.
PANELS: tuple[tuple[str, dict[str, str]], ...] = (
    ("reward", {"reward": "weighted sum"}),
    (
        "rewards by name",
        {
            "rewards/accuracy/mean": "accuracy",
            "rewards/format/mean": "format",
            "rewards/mode_consistency/mean": "mode consistency",
            "programs/first_right": "accuracy of first turns",
        },
    ),
    ("share of first replies", {"programs/native_share": "native", "programs/refined": "refined"}),
    (
        "programs",
        {"programs/ok": "answered", "programs/empty": "no answer", "programs/failed": "failed"},
    ),
    ("tokens of a rollout", {"completions/mean_length": "mean", "completions/max_length": "longest"}),
    ("groups without spread", {"frac_reward_zero_std": "share"}),
    ("entropy", {"entropy": "nats per token"}),
    ("KL to the reference", {"kl": "nats per token"}),
    (
        "held-out questions",
        {
            "eval_answer_accuracy": "answers",
            "eval_mode_accuracy": "modes",
            "eval_well_formed": "well formed",
        },
    ),
)

# Only for two-turn episodes: with one turn they are zero, or equal the accuracy and cover its line.
TWO_TURN_PANELS = ("programs/first_right", "programs/refined")


def read_history(run: Path) -> History:
    """What a run has logged so far. Raises RunError for a folder without a log."""
    last = get_last_checkpoint(str(run)) if run.is_dir() else None
    places = [(run / RECORD, "history")]
    if last is not None:
        places.append((Path(last) / "trainer_state.json", "log_history"))
    for path, name in places:
        try:
            found = parse_json(path.read_text(encoding="utf-8"), infinite=True)[name]
        except FileNotFoundError:
            continue
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RunError(
                f"{path}: is not the record of a training run ({error!r}); give the output_dir of a run"
            ) from error
        if found:
            return found
    raise RunError(
        f"{run}: no step has been logged; give the output_dir of a run of `videopro grpo` that has"
    )


def series(history: History, name: str) -> Series:
    """A logged value by step."""
    return {
        int(line["step"]): float(line[name])
        for line in history
        if "step" in line and line.get(name) is not None
    }


def mean(runs: Sequence[Series]) -> Series:
    """The mean at each step, over the runs that logged it."""
    values: dict[int, list[float]] = defaultdict(list)
    for run in runs:
        for step, value in run.items():
            values[step].append(value)
    return {step: sum(logged) / len(logged) for step, logged in sorted(values.items())}


def smooth(values: Series, width: int) -> Series:
    """At each step, the mean of the last `width` values."""
    steps = sorted(values)
    found = {}
    for place, step in enumerate(steps):
        window = steps[max(0, place + 1 - width) : place + 1]
        found[step] = sum(values[recent] for recent in window) / len(window)
    return found


def draw(histories: Sequence[History]) -> Figure:
    """The panels for which values were logged. Raises RunError if there are none."""
    two_turns = any(
        value > 0 for history in histories for value in series(history, "programs/refined").values()
    )
    shown = []
    for title, names in PANELS:
        found = {
            label: [series(history, name) for history in histories]
            for name, label in names.items()
            if two_turns or name not in TWO_TURN_PANELS
        }
        found = {label: runs for label, runs in found.items() if any(runs)}
        if found:
            shown.append((title, found))
    if not shown:
        raise RunError("these runs logged no GRPO metrics; give output folders of `videopro grpo`")
    columns = min(3, len(shown))
    rows = -(-len(shown) // columns)
    figure = Figure(figsize=(4.4 * columns, 3.1 * rows), layout="constrained")
    for place, (title, found) in enumerate(shown):
        axes = figure.add_subplot(rows, columns, place + 1)
        for number, (label, runs) in enumerate(found.items()):
            average = mean(runs)
            colour = f"C{number}"
            for run in runs:
                axes.plot(list(run), list(run.values()), color=colour, alpha=0.25, linewidth=0.8)
            # Over a tenth of the run: a single batch of a few groups is mostly noise.
            line = smooth(average, max(1, len(average) // 10))
            axes.plot(list(line), list(line.values()), color=colour, linewidth=1.8, label=label)
        axes.set_title(title)
        axes.set_xlabel("step")
        axes.grid(alpha=0.3)
        axes.legend(fontsize="small")
    return figure


COMMAND = CURVES


def main(argv: Sequence[str] | None = None) -> int:
    """The command line. Returns the exit status."""
    with exit_status() as status:
        given = CURVES.parse(argv)
        figure = draw([read_history(run) for run in given.runs])
        folder = given.output if given.output is not None else given.runs[0]
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for ending in ("png", "svg"):
                figure.savefig(folder / f"curves.{ending}", dpi=130)
                print(folder / f"curves.{ending}")
        except OSError as error:
            raise RunError(
                f"{folder}: cannot be written ({error.strerror}); give another --output"
            ) from error
    return status.code


if __name__ == "__main__":
    sys.exit(main())
