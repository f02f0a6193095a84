"""What a thousand hostile programs left of a run."""

from __future__ import annotations

from perf.statements.shared import Statements, listed, record

HOSTILE = "perf/hostile.json"


def _through_infer() -> list[str]:
    result = record(HOSTILE)["inference"]
    statuses = result["exit_statuses"]
    failed = [f"{name} ({status})" for name, status in statuses.items() if status]
    ended = (
        f"of {listed([*statuses])}, {listed(failed)} failed"
        if failed
        else "every command ended with status 0"
    )
    return [
        f"`python -m perf.hostile --only inference --work FOLDER` sent {result['programs']:,} programs "
        "through `videopro infer`, with pocket's own grounding, RapidOCR and pocket's encoder behind the "
        f"modules, and let `view`, `report` and `compare` read the run: {ended}, "
        f"{result['questions_recorded']:,} questions were recorded, {result['lines_set_aside']} lines were "
        f"set aside, and the largest trace has {result['largest_trace_bytes'] / 2**20:.1f} MiB."
    ]


STATEMENTS: Statements = {(HOSTILE, "hostile programs through infer"): _through_infer}
