"""Tables of how fast the parts are, and of the memory that they take."""

from __future__ import annotations

from perf.tables.shared import Record, Table, Tables


def _decoding(record: Record) -> Table:
    files = record["results"]
    names = {
        "videopro": "videopro", "decord": "decord", "opencv": "OpenCV, seeking",
        "pyav": "PyAV, seek per frame", "torchcodec": "TorchCodec", "floor": "floor",
    }  # fmt: skip
    rows = [
        [label, *(f"{results[name]['best_s']:.2f}" for results in files.values())]
        for name, label in names.items()
        if all(name in results for results in files.values())  # what is not installed is not measured
    ]
    ratios = (f"{results['videopro']['of_fastest_rival']:.2f}" for results in files.values())
    rows.append(["videopro / fastest of decord, OpenCV, PyAV", *ratios])
    return ["seconds", *(f"{length.replace(' min', '-minute')} file" for length in files)], rows


def _indexing(record: Record) -> Table:
    names = {
        "videopro": "videopro",
        "cut by copying (the release)": "cutting by copying, then decoding each",
        "cut exactly, encoding anew": "cutting exactly (re-encoding), then decoding each",
    }
    rows = [
        [label, f"{result['best_s']:.1f}", f"{result['times_faster_than_release']:.2f}"]
        for name, label in names.items()
        for result in [record["results"][name]]
    ]
    return [
        "",
        f"seconds (best of {record['rounds']})",
        "times as fast as the release's way",
    ], rows


def _sandbox(record: Record) -> Table:
    names = {
        "videopro": "videopro",
        "smolagents": "smolagents' interpreter, in the host process",
        "python -c": "a `python -c` child for each program, unconfined",
        "fork and pipe": "floor: fork and a pipe",
        "two processes": "floor: two bare processes that send 64 bytes to and fro",
    }
    columns = {"program_ms": 1, "program_cpu_ms": 1, "call_us": 0, "call_cpu_us": 0, "programs_per_s": 0}
    programs = record["ordinary_programs"]
    rows = [
        [
            label,
            *(f"{result[key]:.{digits}f}" if key in result else "" for key, digits in columns.items()),
            f"{result['equal']} of {programs}" if "equal" in result else "",
        ]
        for name, label in names.items()
        for result in [record["results"][name]]
    ]
    heads = ["", "ms a program", "CPU ms", "µs a module call", "CPU µs", "programs a second"]
    return [*heads, "CPython's result"], rows


def _memory(record: Record) -> Table:
    rows = [
        [
            name,
            f"{result['questions']:,}",
            *(f"{result[key]:,.0f}" for key in ("start_mib", "peak_mib", "end_mib")),
            ", ".join(f"{value:,.0f}" for value in result["rss_mib_by_tenth"][-3:]),
        ]
        for name, result in record["results"].items()
    ]
    heads = ["cache", "questions", "MiB at the start", "at most", "at the end", "after the last three tenths"]
    return heads, rows


def _grpo_step(record: Record) -> Table:
    ways = record["ways"]
    first = ways["plain"]["rollouts_per_s"]
    rows = []
    for name, result in ways.items():
        cells = [
            name.replace("plain", "plain TRL", 1),
            f"{result['rollouts_per_s']:.2f}",
            f"{result['rollouts_per_s'] / first:.1f}",
            f"{result['rollouts_per_s'] / ways['plain + remembered rewards']['rollouts_per_s']:.1f}",
            *(f"{result[f'{key}_s']:.2f}" for key in ("step", "cpu", "sampling", "rewards", "update")),
            f"{result['prompt_tokens']:.0f} + {result['reply_tokens']:.0f}",
        ]
        rows.append(cells)
    heads = [
        "", "rollouts a second", "times plain TRL", "times plain TRL + remembered rewards", "step", "CPU",
        "of it sampling", "rewards waited for", "update", "tokens, prompt + reply",
    ]  # fmt: skip
    return heads, rows


def _side_by_side(record: Record) -> Table:
    rows = [
        [row["work"], f"{row['before']:.3g}", f"{row['now']:.3g}", f"{row['ratio']:.2f}"]
        for row in record["rows"]
    ]
    return ["CPU s", *(f"{when} ({commit})" for when, commit in record["commits"].items()), "ratio"], rows


TABLES: Tables = {
    ("perf/side_by_side.json", "side by side"): _side_by_side,
    ("perf/decode.json", "decoding"): _decoding,
    ("perf/index.json", "indexing"): _indexing,
    ("perf/executor.json", "sandbox"): _sandbox,
    ("perf/memory.json", "memory of a worker"): _memory,
    ("perf/grpo.json", "a step of GRPO"): _grpo_step,
}
