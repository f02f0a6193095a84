"""Tables of served models: how busy an engine is, and what it answers."""

from __future__ import annotations

from perf.tables.shared import Record, Table, Tables

_LEGS = {
    "native-1": "native, one question a video",
    "native-10": "native, ten a video",
    "videopro": "videopro, two a video",
}


def _flow(record: Record) -> Table:
    rows = []
    for name, result in record["results"].items():
        leg, _, _ = name.partition(", ")
        rows.append(
            [
                _LEGS[leg],
                str(result["in_flight"]),
                str(result["questions"]),
                f"{result['questions_per_s']:.2f}",
                f"{result['busy_pct']:.1f} %",
                f"{result['mean_requests']:.1f}",
                f"{result['engine_s_a_question']:.3f}",
                f"{result['client_cpu_s_a_question']:.3f}",
                f"{result['load']:.1f}",
            ]
        )
    heads = ["", "videos in flight", "questions", "questions/s", "engine busy", "requests in it, mean"]
    return [*heads, "engine s a question", "client CPU s a question", "load average"], rows


def _flow_live(record: Record) -> Table:
    legs = {**_LEGS, "videopro": "videopro, eleven a video"}  # of the pocket world
    rows = []
    for leg, title in legs.items():
        for name, result in record["results"].items():
            if name.partition(", ")[0] != leg:
                continue
            cells = [
                f"{result['questions_per_s']:.2f}",
                f"{result['mean_requests']:.1f}",
                f"{result['engine_cpu_s_a_question']:.3f}",
                f"{result['client_cpu_s_a_question']:.3f}",
                f"{result['prompt_tokens_a_question']:,}",
            ]
            rows.append([title, str(result["in_flight"]), str(result["questions"]), *cells])
    heads = ["", "in flight", "questions", "questions/s", "requests in it, mean"]
    return [*heads, "engine CPU s a question", "client CPU s a question", "prompt tokens"], rows


def _served(record: Record) -> Table:
    """What the local model and a live engine gave to the same questions, and what was aimed at."""
    targets = record["targets"]

    def share(name: str, questions: str, label: str) -> list[str]:
        measured, target = 100 * record[name], 100 * targets[name]
        return [label, str(record[questions]), f"{measured:.1f} %", f"at least {target:.0f} %"]

    mean, largest = record["confidence_mean_difference"], record["confidence_largest_difference"]
    rows = [
        share("letters", "questions", "same letter (native)"),
        [
            "difference of confidence: mean, largest",
            str(record["questions"]),
            f"{mean:.4f}, {largest:.3f}",
            f"mean at most {targets['confidence_mean_difference']}",
        ],
        share("programs", "program_questions", "same greedy program"),
        share("answers", "program_questions", "same final answer (videopro)"),
    ]
    return ["", "questions", "measured", "target"], rows


def _cancelling(record: Record) -> Table:
    """How fast cancelled work stops."""
    rows = [
        [
            name,
            f"{way['within_1_s']} of {way['trials']}",
            f"{way['median_s']:.2f} s",
            f"{way['longest_s']:.2f} s",
            f"{way['processor_after_s']:.2f} s",
        ]
        for name, way in record["ways"].items()
    ]
    return ["work", "stopped within 1 s", "median", "longest", "processor time after it"], rows


def _serving_clients(record: Record) -> Table:
    """What clients of videopro serve see who ask at the same time."""
    behind = record["behind"]
    legs = {
        f"{record['each']['clients']} clients, one question each": record["each"],
        f"one client with {behind['questions_of_one']} questions": behind["one"],
        f"{behind['others']['clients']} clients behind it, one question each": behind["others"],
    }
    rows = [
        [
            name,
            f"{leg['answered']} of {leg['clients']}",
            str(leg["told_their_place"]),
            str(leg["largest_place"]),
            *(
                ", ".join(f"{leg[moment][which]:.1f}" for which in ("least", "median", "most"))
                for moment in ("told", "step", "answer")
            ),
        ]
        for name, leg in legs.items()
    ]
    heads = ["", "answered", "waited, and told their place", "last place"]
    return [*heads, "first event, s", "first step, s", "answer, s"], rows


def _hang_ups(record: Record) -> Table:
    """How long the server works for a client that is gone."""
    ups = record["hang_ups"]
    seconds = ups["seconds"]
    row = [
        str(ups["clients"]),
        f"{ups['in_time']} of {ups['clients']}",
        f"{seconds[len(seconds) // 2]:.3f}, {seconds[-1]:.3f}",
        str(ups["answers_stored"]),
    ]
    return ["hung up", f"stopped within {ups['goal_s']:g} s", "seconds: median, most", "answers stored"], [
        row
    ]


TABLES: Tables = {
    ("perf/serving_clients.json", "clients at the same time"): _serving_clients,
    ("perf/serving_clients.json", "clients that hang up"): _hang_ups,
    ("perf/cancelling.json", "cancelled work"): _cancelling,
    ("perf/flow.json", "how busy an engine is kept"): _flow,
    ("perf/flow_live.json", "a live engine"): _flow_live,
    ("perf/served.json", "local against live"): _served,
}
