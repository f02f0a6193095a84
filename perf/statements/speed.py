"""How fast steps are beside others, and what a worker takes."""

from __future__ import annotations

from perf.statements.shared import Statements, record

GRPO, SFT, MEMORY = "perf/grpo.json", "perf/sft.json", "perf/memory.json"


def _step_of_grpo() -> list[str]:
    ways = record(GRPO)["ways"]
    ours, plain, remembered = (ways[way] for way in ("ours", "plain", "plain + remembered rewards"))
    (steps,) = {len(way["passes"]) * record(GRPO)["steps"] for way in (ours, plain, remembered)}
    faster, too = (ours["rollouts_per_s"] / way["rollouts_per_s"] for way in (plain, remembered))
    return [
        f"""On pocket a step is {faster:.1f} times as fast as in plain TRL with frames as images, and
            {too:.1f} times if that remembers rewards too ({steps} steps of each; [where the time
            goes](results/grpo.md#how-fast-a-step-is))."""
    ]


def _step_of_sft() -> list[str]:
    ours, plain = (record(SFT)["ways"][way] for way in ("videopro", "plain TRL, frames as images"))
    faster = ours["samples_per_s"] / plain["samples_per_s"]
    batch = record(SFT)["batch"]
    steps = record(SFT)["rows"] // batch
    tokens = ours["tokens_a_row"] / plain["tokens_a_row"]
    return [
        f"""Two CPU cores, pocket size, {steps} steps of {batch} rows, median of
            {record(SFT)["rounds"]} rounds (`python -m perf.sft --rounds 3`, `{SFT}`):
            {ours["samples_per_s"]:.2f} rows a second, against {plain["samples_per_s"]:.2f} in plain TRL
            with frames as images ({faster:.1f} times), with {ours["peak_mib"]:,.0f} and
            {plain["peak_mib"]:,.0f} MiB and {tokens:.2f} times the tokens per row. Steps at the shapes of
            Qwen3-VL-2B: [real shapes](real-shapes.md)."""
    ]


def _worker() -> str:
    result = record(MEMORY)["results"]["512 MiB"]
    early, most = result["rss_mib_by_tenth"][0] / 1024, result["peak_mib"] / 1024
    questions = result["questions_by_tenth"][0]
    return (
        f"One worker takes {early:.1f} GiB after {questions} questions on pocket, and at most {most:.1f} in "
        f"{result['questions']:,}, with 512 MiB of frames (`{MEMORY}`)."
    )


def _memory() -> list[str]:
    return [f"{_worker()} What it takes over a long run is in [hardening](../hardening.md#runs-and-files)."]


STATEMENTS: Statements = {
    (GRPO, "how fast a step is"): _step_of_grpo,
    (SFT, "how fast a step is"): _step_of_sft,
    (MEMORY, "what a worker takes"): _memory,
}
