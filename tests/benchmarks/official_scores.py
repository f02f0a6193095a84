"""Compares our official scores with those of the official code, on 1,000 replies for each benchmark.

    python -m tests.benchmarks.official_scores [--repositories FOLDER]

prints the table of docs/results/official-scorers.md; with FOLDER it first runs the official code again, and
records what that makes of the replies.

The replies are made from a seed, in many forms, about questions in each benchmark's own format
(official_scorers/replies.py and others). What the official code makes of them is recorded in
official_scorers/recorded, with repository, file and commit; the table compares our scores with that record,
so it needs no network. FOLDER holds a git directory OWNER+NAME/repo, or a clone OWNER+NAME, of each
repository.
"""

import hashlib
import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

from tests.benchmarks.official_scorers import data
from tests.benchmarks.official_scorers.ours import DIMENSIONS, OURS, Scores
from videopro.cli import CommandLine, exit_status, setting

RECORDED = Path(__file__).parent / "official_scorers" / "recorded"


@dataclass(frozen=True)
class Case:
    """A scorer and ours."""

    name: str
    title: str
    asked: Callable[[], Any]
    """Makes the questions and replies."""
    main: tuple[str, ...]
    """The scores that the table shows."""
    differ: tuple[str, ...] = ()
    """The scores that are not equal, for a reason on the page."""


_RATED = ("total", "relevance_score", "logic_score", "level_1", "level_2", "level_3")

CASES = (
    Case("videomme", "Video-MME", data.videomme, ("Overall",)),
    Case("videomme_v2", "Video-MME-v2", data.videomme_v2, ("overall_score", "overall_acc")),
    Case(
        *("videomme_v2_authors", "Video-MME-v2, the authors' script", data.videomme_v2),
        *(("total", "total, unread 0"), _RATED),
    ),
    Case("longvideobench", "LongVideoBench", data.longvideobench, ("Overall",)),
    Case("lvbench", "LVBench", data.lvbench, ("acc",)),
    Case("mlvu", "MLVU dev", data.mlvu, ("Avg",)),
    Case(
        *("cg_bench", "CG-Bench", data.cg_bench_runs),
        ("long_acc", "miou", "rec@iou", "acc@iou", "CRR, all", "open"),
    ),
    Case("mvbench", "MVBench", data.mvbench, ("Avg",)),
    *(
        Case(f"tempcompass_{task}", f"TempCompass, {task}", partial(data.tempcompass, task), ("avg",))
        for task in ("multi-choice", "yes_no", "caption_matching")
    ),
    Case("nextqa", "NExT-QA", data.nextqa, ("exact_match", "Acc_C", "Acc_T", "Acc_D")),
    Case("nextqa_atp_hard", "NExT-QA ATP-hard", data.nextqa_atp_hard, ("Acc_C", "Acc_T", "Acc")),
    Case("intentqa", "IntentQA", data.intentqa, ("Why", "How", "Bef&Aft", "Acc")),
    Case("egoschema", "EgoSchema", data.egoschema, ("score",)),
    Case("egoschema_exact", "EgoSchema, protocol exact", data.egoschema, ("score",)),
    Case("charades_sta", "Charades-STA", data.charades_sta, ("IOU@3", "IOU@5", "IOU@7", "mIOU")),
    Case(
        *("mmbench_video", "MMBench-Video", partial(data.mmbench_video, DIMENSIONS)),
        ("Overall", "Overall, valid"),
    ),
)


def digest(case: Case) -> str:
    """The SHA-256 of a case's questions and replies."""
    return hashlib.sha256(json.dumps(case.asked(), default=vars).encode()).hexdigest()


def recorded(case: Case) -> dict[str, Any]:
    """What the official code made of the replies."""
    content: dict[str, Any] = json.loads((RECORDED / f"{case.name}.json").read_text(encoding="utf-8"))
    return content


def record(repositories: Path) -> None:
    """Run the official code and record what it makes of the replies."""
    from tests.benchmarks.official_scorers import details, official

    RECORDED.mkdir(exist_ok=True)
    shown = json.dumps(details.official(repositories))
    (RECORDED / "details.json").write_text(f"{shown}\n", encoding="utf-8")
    for case in CASES:
        with tempfile.TemporaryDirectory() as scratch:
            scores = official.OFFICIAL[case.name].score(repositories, Path(scratch))
        content = {
            "scripts": [vars(script) for script in official.OFFICIAL[case.name].scripts],
            "replies_sha256": digest(case),
            "verdicts": scores.verdicts,
            "numbers": scores.numbers,
        }
        (RECORDED / f"{case.name}.json").write_text(json.dumps(content) + "\n", encoding="utf-8")


@dataclass(frozen=True)
class Comparison:
    """Ours beside what is recorded of the official code."""

    official: Mapping[str, Any]
    own: Scores

    def verdicts_that_differ(self) -> int:
        """How many replies the two read differently."""
        pairs = zip(_each(self.official["verdicts"]), _each(self.own.verdicts), strict=True)
        return sum(left != right for left, right in pairs)

    def numbers_that_differ(self) -> list[str]:
        """The names of the scores that are not equal."""
        numbers = self.official["numbers"]
        assert set(numbers) == set(self.own.numbers), set(numbers) ^ set(self.own.numbers)
        return [name for name, value in numbers.items() if value != self.own.numbers[name]]


@cache
def compare(case: Case) -> Comparison:
    """Score the replies of a case, once in a process."""
    return Comparison(recorded(case), OURS[case.name]())


def _rows(case: Case) -> Iterator[tuple[str, ...]]:
    found = compare(case)
    replies, numbers = found.verdicts_that_differ(), found.numbers_that_differ()
    for name in case.main:
        yield (
            case.title,
            " and ".join(f"{own['repository']} `{own['commit']}`" for own in _distinct(found.official)),
            name,
            str(found.official["numbers"][name]),
            str(found.own.numbers[name]),
            f"{replies} of {len(_each(found.own.verdicts)):,}",
            f"{len(numbers)} of {len(found.own.numbers)}",
        )


def _distinct(official: Mapping[str, Any]) -> list[dict[str, str]]:
    """The scripts of a case, one for each repository."""
    return list({own["repository"]: own for own in reversed(official["scripts"])}.values())[::-1]


def _each(verdicts: Any) -> list[Any]:
    """The verdicts of each reply, of one run after the other if there are two."""
    if isinstance(verdicts, list) and isinstance(verdicts[0], str):
        return [*verdicts[0], *verdicts[1]]
    return list(verdicts)


HEADS = (
    *("benchmark", "official code", "score", "official", "ours", "replies read differently"),
    "scores that differ",
)


def table() -> str:
    """The table in Markdown."""
    lines = [HEADS, ("---",) * len(HEADS), *(row for case in CASES for row in _rows(case))]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


@dataclass(frozen=True)
class OfficialScoresSettings:
    """Whether the official code runs again."""

    repositories: Path | None = field(
        default=None, metadata=setting("run the official code, from copies in this folder, and record it")
    )


COMMAND = CommandLine(
    "tests.benchmarks.official_scores",
    OfficialScoresSettings,
    summary="Compare our official scores with those of the official code.",
)


def main(argv: Sequence[str] | None = None) -> int:
    """The command line. Returns the exit status."""
    with exit_status() as status:
        given = COMMAND.parse(argv)
        if given.repositories is not None:
            record(given.repositories)
        print(table())
    return status.code


if __name__ == "__main__":
    sys.exit(main())
