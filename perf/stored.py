"""Runs that docs/results stores, and what is counted of their traces."""

from __future__ import annotations

import json
import tarfile
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import yaml

from perf import ROOT
from perf.pairs import holm, t_test
from videopro.report.runs import sampling_of
from videopro.traces import RESCORINGS, Trace
from videopro.traces.scoring import SeedRow, seed_table
from videopro.traces.scoring.intervals import mean_interval, t_interval

RESULTS = ROOT / "docs" / "results"
SHIPPED = 1
"""The seed of the planner that ships."""


@cache
def configs(results: str) -> Mapping[str, Any]:
    """The settings of the runs that a folder of docs/results stores, by the run's name."""
    with tarfile.open(RESULTS / results / "traces.tar.xz") as archive:
        return {
            member.name.removesuffix("/config.yaml"): yaml.safe_load(_content(archive, member))
            for member in archive
            if member.name.endswith("/config.yaml")
        }


@cache
def traces(results: str, run: str) -> tuple[Trace, ...]:
    """The traces of a stored run. Raises KeyError without one."""
    with tarfile.open(RESULTS / results / "traces.tar.xz") as archive:
        # Some archives have names that begin with "./". What follows the run is not unpacked.
        name = f"{run}/traces.jsonl"
        member = next((each for each in archive if each.name.removeprefix("./") == name), None)
        if member is None:
            raise KeyError(f"{results} stores no run {run}")
        lines = _content(archive, member).splitlines()
    return tuple(map(Trace.from_line, lines))


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(member)
    assert file is not None, member.name
    return file.read()


def written(config: Mapping[str, Any]) -> str:
    """How a run's programs were written: "" for none, by the "teacher", or how they were decoded."""
    method = config["identity"]["method"]
    is_teachers = str(method.get("planner")).startswith("pocket-teacher")
    return "teacher" if is_teachers else sampling_of(method)


def is_right_at_first(trace: Trace) -> bool:
    """Whether the first program has the right answer."""
    execution = trace.rounds[0].execution
    answer = execution.answer if execution is not None else None
    return answer is not None and trace.is_right(answer.letter)


def row(file: str, name: str) -> Any:
    """The row of this name in a table that `videopro seeds` wrote, without its ending, below docs/results."""
    rows = json.loads((RESULTS / f"{file}.json").read_text(encoding="utf-8"))
    return next(row for row in rows if row["name"] == name)


@cache
def repairs() -> Mapping[str, int]:
    """Of the teacher's `videopro` on test: first programs of several steps, those with a fault, questions
    that only the refinement has right, and those of them whose first program had a fault."""
    run = traces("pocket-test", "videopro")
    programs = [trace for trace in run if trace.rounds[0].mode == "program"]
    faulty = {trace.question_id for trace in run if trace.rounds[0].notes["fault"] != "none"}
    repaired = {
        trace.question_id
        for trace in run
        if not is_right_at_first(trace) and trace.final is not None and trace.is_right(trace.final.letter)
    }
    return {
        "programs": len(programs),
        "faulty": len(faulty),
        "repaired": len(repaired),
        "repaired_faulty": len(repaired & faulty),
    }


_FRESH = {
    "native": "native",
    "native, subtitles at its frames": "native-frames",
    "native, all subtitles": "native-subtitles",
    "program": "program",
    "videopro": "videopro",
    "videopro, reader off": "videopro-unread",
    "videopro by pocket-sft": "shipped-videopro",
}
"""The names of the fresh world's rows in its archive."""


def test_and_fresh() -> list[Mapping[str, Any]]:
    """Methods on test, and in a world that was drawn once, after all settings were fixed, with how their
    programs were written. On test, the shipped planner is the one of its three seeds that ships.

    Raises KeyError if its programs were written in two ways."""
    fresh = configs("pocket-fresh")
    shipped = f"videopro-{SHIPPED}"
    if written(configs("pocket-sft")[shipped]) != written(fresh["shipped-videopro"]):
        raise KeyError("the shipped planner's runs on test and on the fresh world differ in their decoding")
    summary = json.loads((RESULTS / "pocket-sft" / f"{shipped}.json").read_text(encoding="utf-8"))
    return [
        {
            "name": name,
            "written": written(fresh[run]),
            "test": summary if run == "shipped-videopro" else row("pocket-test/last", name),
            "fresh": row("pocket-fresh/last", name),
        }
        for name, run in _FRESH.items()
    ]


def equal_budgets(report: str) -> list[Sequence[str]]:
    """A row for each system: its accuracy at 8 and 16 frames a call, and its tokens at the latter, of the
    report's table of costs."""
    lines = (
        report.partition("**Accuracy against cost, pocket test**\n\n")[2].partition("\n\n")[0].splitlines()
    )
    heads, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
    runs = [dict(zip(heads, cells, strict=True)) for cells in rows]
    names = dict.fromkeys(run["run"].split(",")[0] for run in runs)
    by_budget = {(run["run"].split(",")[0], run["frames a call"]): run for run in runs}
    return [
        (
            name,
            *(by_budget.get((name, budget), {}).get("accuracy, %", "not run") for budget in ("8", "16")),
            by_budget[name, "16"]["tokens in + out, amortised"],
        )
        for name in names
    ]


def parts_measured() -> list[str]:
    """The parts of launch/gpu_check.sh that have figures of a GPU."""
    parts = json.loads((ROOT / "perf" / "gpu.json").read_text(encoding="utf-8"))["parts"]
    return [letter for letter in parts if any("figures" in case for case in parts[letter]["cases"].values())]


# ---- programs that were sampled --------------------------------------------------------------------------


SAMPLED = "pocket-sampled"
"""The folder of docs/results with the sampled runs, WORLD-SEED, and with those on val, one for each way."""
_GREEDY = {"test": ("pocket-sft", "videopro-1"), "fresh": ("pocket-fresh", "shipped-videopro")}
"""Where the same planner's greedy runs are."""
WORLDS = tuple(_GREEDY)


@cache
def compared(world: str) -> Mapping[str, Any]:
    """The numbers of the sampled runs of a world under all their seeds, and of the greedy run, as `videopro
    seeds` counts them, on the questions of all these runs, by how the programs were written. Raises KeyError
    if a run was written in another way than it stands for."""
    folder, run = _GREEDY[world]
    names = sorted(name for name in configs(SAMPLED) if name.startswith(f"{world}-"))
    (how,) = {written(configs(SAMPLED)[name]) for name in names}
    if written(configs(folder)[run]) != "greedy" or not how.startswith("sampled"):
        raise KeyError(f"{world}: the runs are {written(configs(folder)[run])} and {how}")
    runs = [traces(folder, run), *(traces(SAMPLED, name) for name in names)]
    shared = set.intersection(*({trace.question_id for trace in run_traces} for run_traces in runs))
    greedy, *sampled = ([trace for trace in run_traces if trace.question_id in shared] for run_traces in runs)
    return _numbers({"greedy": [greedy], how: sampled})


def lost_at_first() -> tuple[int, int]:
    """Over all worlds and seeds: the answers that the first greedy program has right and the first sampled
    one has not, and those of them whose sampled program is not well-formed."""
    lost = []
    for world, (folder, run) in _GREEDY.items():
        right = {trace.question_id for trace in traces(folder, run) if is_right_at_first(trace)}
        for name in configs(SAMPLED):
            if name.startswith(f"{world}-"):
                sampled = traces(SAMPLED, name)
                lost += [one for one in sampled if one.question_id in right and not is_right_at_first(one)]
    return len(lost), sum(bool(trace.rounds[0].faults) for trace in lost)


@cache
def two_programs(world: str) -> Mapping[str, Any]:
    """Refinement of the greedy programs of a world, beside controls that run as many programs: the surer of
    the greedy first program and a sampled one, for as many questions at random, and for those that were
    refined; over all seeds of sampling. Shares, and the differences with intervals by video."""
    folder, run = _GREEDY[world]
    sampled = [traces(SAMPLED, name) for name in configs(SAMPLED) if name.startswith(f"{world}-")]
    asked = set.intersection(*({trace.question_id for trace in each} for each in sampled))
    greedy = {trace.question_id: trace for trace in traces(folder, run)}
    pairs = [(greedy[two.question_id], two) for each in sampled for two in each if two.question_id in asked]
    share = sum(len(one.rounds) > 1 for one, _ in pairs) / len(pairs)
    sums: dict[str, float] = defaultdict(float)
    gaps: dict[str, dict[str, list[float]]] = {"random": defaultdict(list), "same": defaultdict(list)}
    for one, two in pairs:
        first, refined = float(is_right_at_first(one)), float(_is_right(one))
        surer = float(is_right_at_first(max(one, two, key=_sureness)))
        controls = {
            "random": (1 - share) * first + share * surer,
            "same": surer if len(one.rounds) > 1 else first,
        }
        for name, value in {"first": first, "refined": refined, **controls}.items():
            sums[name] += value / len(pairs)
        for name, value in controls.items():
            gaps[name][one.video.key].append(refined - value)
    intervals = {name: mean_interval(each, low=-1.0, high=1.0) for name, each in gaps.items()}
    counts = {"questions": len(asked), "seeds": len(sampled), "share": share}
    return {**counts, **sums, "ci95": intervals}


def _sureness(trace: Trace) -> float:
    """The confidence of a trace's first program; -1 where it failed."""
    execution = trace.rounds[0].execution
    is_ok = execution is not None and execution.status == "ok"
    return execution.answer.confidence if execution is not None and is_ok else -1.0


@cache
def on_val() -> Mapping[str, Any]:
    """The same for each way that was tried on val, with one seed."""
    names = sorted(name for name in configs(SAMPLED) if name.startswith("val-"))
    return _numbers({written(configs(SAMPLED)[name]): [traces(SAMPLED, name)] for name in names})


def _numbers(runs: Mapping[str, Sequence[Sequence[Trace]]]) -> Mapping[str, Any]:
    rows = [
        SeedRow(how, (), seeds=tuple(map(tuple, seeds)), recorded=tuple(map(tuple, seeds)))
        for how, seeds in runs.items()
    ]
    return {row["name"]: row for row in seed_table(rows, {}, {})}


# ---- what pocket's questions can show ------------------------------------------------------------------


FAULTLESS = "pocket-faultless"
"""The folder of docs/results with the runs of the teacher that puts no fault into its programs, by world."""
_NOTHING_TO_FIND = ("gist", "count")
"""Families that ask for what is counted, or that no shortcut helps with."""


@cache
def counted(world: str) -> Sequence[Mapping[str, Any]]:
    """A row for each family of "test" or "fresh", for all, and for all without gist and count: the shortcut
    that is best on train, and the shares that are right by this shortcut and by native; on test also by the
    faultless teacher, at first and after refinement."""
    shares = json.loads((ROOT / "perf" / "shortcuts.json").read_text(encoding="utf-8"))
    direct = row(f"pocket-{world}/last", "native")["families"]
    rows = []
    for family, found in shares[world].items():
        questions = found["questions"]
        on_train = {name: share for name, share in shares["train"][family].items() if name != "questions"}
        shortcut = max(on_train, key=on_train.__getitem__)
        numbers = {"counting": found[shortcut], "native": direct[family]}
        if world == "test":
            run = [trace for trace in traces(FAULTLESS, world) if trace.groups["family"] == family]
            assert len(run) == questions, (family, len(run), questions)
            numbers["first"] = sum(map(is_right_at_first, run)) / questions
            numbers["last"] = sum(map(_is_right, run)) / questions
        rows.append({"family": family, "questions": questions, "shortcut": shortcut, **numbers})
    return [
        *rows,
        _together("all", rows),
        _together(
            "all but gist and count", [part for part in rows if part["family"] not in _NOTHING_TO_FIND]
        ),
    ]


def _together(name: str, rows: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    questions = sum(part["questions"] for part in rows)
    shares = {
        column: sum(part["questions"] * part[column] for part in rows) / questions
        for column in ("counting", "native", "first", "last")
        if column in rows[0]
    }
    return {"family": name, "questions": questions, "shortcut": "", **shares}


def _is_right(trace: Trace) -> bool:
    """Whether the last program has the right answer, whatever rule the run was recorded with."""
    final = RESCORINGS["last"](trace, None).final
    return final is not None and trace.is_right(final.letter)


@cache
def refinements() -> Sequence[Mapping[str, Any]]:
    """What refinement gained and lost by the last program, over the questions of each row: the share that
    is right at first, how many were refined, gained and lost, and the difference in the share that is right
    with its interval by video."""
    rows = []
    for name, folder, runs in _REFINING:
        members = [trace for run in runs for trace in traces(folder, run)]
        if name in _BROKEN:
            members = [
                trace for trace in members if (trace.rounds[0].notes["fault"] != "none") is _BROKEN[name]
            ]
        gains: dict[str, list[int]] = defaultdict(list)
        for trace in members:
            gains[trace.video.key].append(_is_right(trace) - is_right_at_first(trace))
        changes = [gain for of_video in gains.values() for gain in of_video]
        rows.append(
            {
                "name": name,
                "questions": len(changes),
                "first": sum(map(is_right_at_first, members)) / len(members),
                "refined": sum(len(trace.rounds) > 1 for trace in members),
                "gained": changes.count(1),
                "lost": changes.count(-1),
                "gain": sum(changes) / len(changes),
                "ci95": mean_interval(gains, low=-1.0, high=1.0),
            }
        )
    return rows


def _seeds(name: str) -> list[str]:
    return [f"{name}-{seed}" for seed in range(3)]


_REFINING: Sequence[tuple[str, str, Sequence[str]]] = (
    ("teacher, test, a fault put in at first", "pocket-test", ["videopro"]),
    ("teacher, test, none put in at first", "pocket-test", ["videopro"]),
    ("teacher, fresh world, a fault put in at first", "pocket-fresh", ["videopro"]),
    ("teacher, fresh world, none put in at first", "pocket-fresh", ["videopro"]),
    ("teacher without faults, test", FAULTLESS, ["test"]),
    ("fine-tuned planner, test, three seeds", "pocket-sft", _seeds("videopro")),
    ("the same, in other words", "pocket-sft", _seeds("heldout-videopro")),
    ("SFT on 60 questions", "pocket-grpo", _seeds("few-videopro")),
    ("SFT on its own right programs, two rounds", "pocket-grpo", _seeds("own-videopro")),
    ("GRPO, two rounds (80 steps)", "pocket-grpo", _seeds("grpo-videopro")),
    ("SFT on 240 questions", "pocket-grpo-240", _seeds("few-videopro")),
    ("SFT + GRPO", "pocket-grpo-240", _seeds("grpo-videopro")),
)
_BROKEN = {name: "a fault" in name for name, _, _ in _REFINING if "put in" in name}
"""Whether a row has the questions whose first program was given a fault, or the others."""


# ---- ways of training ------------------------------------------------------------------------------------


_WAYS = {
    "sft": ("pocket-grpo", "SFT on 60 questions"),
    "more 1": ("pocket-grpo", "+ more SFT, one round"),
    "own 1": ("pocket-grpo", "+ SFT on its own right programs, one round"),
    "grpo 1": ("pocket-grpo", "+ GRPO, one round (40 steps)"),
    "more 2": ("pocket-grpo", "+ more SFT, two rounds"),
    "own 2": ("pocket-grpo", "+ SFT on its own right programs, two rounds"),
    "both": ("pocket-grpo", "+ SFT on its own right programs, then GRPO (40 steps)"),
    "grpo 2": ("pocket-grpo", "+ GRPO, two rounds (80 steps)"),
    "sft, 240": ("pocket-grpo-240", "SFT on 240 questions"),
    "grpo, 240": ("pocket-grpo-240", "SFT + GRPO"),
    "two turns, 240": ("pocket-grpo-240", "SFT + GRPO, episodes of two turns"),
    "sft, shipped": ("pocket-grpo-shipped", "SFT on 240 questions"),
    "grpo, shipped": ("pocket-grpo-shipped", "SFT + GRPO"),
}
"""The folder in docs/results and the name there of each way of training on the page on GRPO."""
_PAIRS = (
    *((way, "sft") for way, (folder, _) in _WAYS.items() if folder == "pocket-grpo" and way != "sft"),
    *(("grpo 1", "more 1"), ("grpo 2", "more 2"), ("grpo 2", "grpo 1")),
    *(("own 1", "grpo 1"), ("own 2", "grpo 2"), ("own 2", "own 1")),
    *(("both", "own 1"), ("both", "own 2"), ("both", "grpo 2")),
    *(("grpo, 240", "sft, 240"), ("two turns, 240", "sft, 240"), ("two turns, 240", "grpo, 240")),
    ("grpo, shipped", "sft, shipped"),
)
"""All pairs that the page speaks of."""


@cache
def pairs(rule: str, only: str = "") -> Sequence[Mapping[str, Any]]:
    """The difference of each pair (of one folder: `only`) under a rule of the final answer, named as files
    there are ("first", "last-fallback"): by seed, its mean and interval over seeds, p, and p corrected over
    these pairs. Both ways of a pair answered the same questions, so their difference is paired."""
    chosen = [pair for pair in _PAIRS if only in ("", _WAYS[pair[0]][0])]
    seeds = {way: row(f"{folder}/{rule}", name)["seeds"] for way, (folder, name) in _WAYS.items()}
    gaps = [[one - other for one, other in zip(seeds[way], seeds[over], strict=True)] for way, over in chosen]
    ps = [t_test(gap) for gap in gaps]
    return [
        {
            "pair": (way, over),
            "way": _titled(way),
            "over": _titled(over),
            "gap": sum(gap) / len(gap),
            "ci95": t_interval(gap),
            "seeds": gap,
            "p": p,
            "corrected": corrected,
        }
        for (way, over), gap, p, corrected in zip(chosen, gaps, ps, holm(ps), strict=True)
    ]


def _titled(way: str) -> str:
    folder, name = _WAYS[way]
    planners = {"pocket-grpo-240": " (stopped early)", "pocket-grpo-shipped": " (shipped)"}
    return name.removeprefix("+ ") + planners.get(folder, "")


FUNCTIONS: Sequence[Callable[..., Any]] = (
    *(row, repairs, test_and_fresh, equal_budgets, parts_measured, compared, lost_at_first, on_val),
    two_programs,
    *(counted, refinements, pairs),
)
"""What templates may call."""
