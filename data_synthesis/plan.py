"""The plan of a synthesis: what is left after each filter, what would be asked, what rows, tokens, costs and
hours to expect. It is made from annotations alone: nothing is loaded, asked or spent."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console

from videopro.benchmarks import Item
from videopro.cli import TextTable
from videopro.data_synthesis.questions import Filters, Side
from videopro.data_synthesis.rates import ASSUMED, SIDES, Rates, rates_of
from videopro.data_synthesis.rules import RULES
from videopro.data_synthesis.settings import SynthesisConfig
from videopro.data_synthesis.teacher import ReplyTokens, TeacherUsage
from videopro.methods.program import refinement_prompt
from videopro.modules import full_reference
from videopro.question import prompts
from videopro.traces import Trace

# Characters of a prompt for a token; of English and code, tokenizers of teachers make about as many.
_CHARACTERS = 4
# Questions whose prompts are measured.
_PROMPTS = 200

Counts = dict[str, float]


def make_plan(
    config: SynthesisConfig,
    filters: Filters,
    items: Sequence[Item],
    traces: Sequence[Trace],
    *,
    spent: TeacherUsage,
    replies: ReplyTokens,
    has_files: bool = True,
) -> dict[str, Any]:
    """The plan for asking these questions, JSON-able. `traces`: what the folder has recorded, and `spent` and
    `replies` what its requests used; their rates replace assumptions. `has_files`: whether the videos should
    be there, and are not made on demand."""
    split = config.video_split()
    is_divided = split.sft_share is not None
    sides = SIDES if is_divided else SIDES[:1]
    side_of = {item.id: next(s for s in sides if split.serves(item.video_key, s)) for item in items}
    rates = {side: rates_of(traces, side, config) for side in sides}
    recorded = {trace.question_id for trace in traces}
    open_items = [item for item in items if item.id not in recorded]
    tokens = _reply_tokens(config, items, replies)
    per_question = {side: _usage(rates[side], tokens) for side in sides}
    ahead = _sum(per_question[side_of[item.id]] for item in open_items)
    rows: dict[str, Counts] = {"sft": {}, "grpo": {}}
    for item in items:
        for name in SIDES:
            for kind, rate in getattr(rates[side_of[item.id]], name).items():
                rows[name][kind] = rows[name].get(kind, 0.0) + rate
    requests = spent.requests + ahead.get("requests", 0.0)
    prices = config.prices()
    expected = {
        "requests": round(requests),
        "tokens in": round(spent.tokens_in + ahead.get("tokens_in", 0.0)),
        "tokens out": round(spent.tokens_out + ahead.get("tokens_out", 0.0)),
    }
    videos = len({item.video_key for item in open_items})
    # Opening and indexing a video is paid once, however many questions ask about it.
    model = sum(rates[side_of[item.id]].seconds for item in open_items) + videos * ASSUMED.video_seconds
    teacher = ahead.get("requests", 0.0) * ASSUMED.reply_seconds / config.concurrency
    return {
        "filters": [asdict(step) for step in filters.steps],
        "asks": _asks(config, items),
        "questions": len(items),
        "videos": len({item.video_key for item in items}),
        "missing videos": sum(not path.exists() for path in {item.video for item in open_items})
        if has_files
        else 0,
        "recorded": len(items) - len(open_items),
        "limit": config.limit,
        "sides": {
            name: _side([item for item in items if not is_divided or side_of[item.id] == name])
            for name in SIDES
        },
        "rests on": {side: _basis(rates[side]) for side in sides}
        | {"tokens": tokens["basis"], "time": "assumed"},
        "per question": {side: asdict(rates[side]) for side in sides},
        "teacher": {
            **expected,
            "cost": None
            if prices is None
            else round(prices.of(expected["tokens in"], expected["tokens out"]), 2),
            "most": None
            if prices is None
            else round(
                prices.of(spent.tokens_in, spent.tokens_out)
                + ahead.get("requests", 0.0) * prices.of(tokens["in_first"], config.max_new_tokens),
                2,
            ),
            "max_cost": config.max_cost,
            "ends at": _end(config, open_items, side_of, per_question, spent),
        },
        "hours": {"teacher": round(teacher / 3600, 1), "model": round(model / 3600, 1)},
        "rows": {
            "sft": _rows(rows["sft"], config.sft_rows, RULES),
            "grpo": _rows(rows["grpo"], config.grpo_rows, {}),
        },
    }


def _asks(config: SynthesisConfig, items: Sequence[Item]) -> str:
    """16 hex digits of what is asked: the plan of the same questions stays the one made before them."""
    limits = (config.sft_rows, config.grpo_rows)
    text = json.dumps([sorted(item.id for item in items), *limits, config.always_program])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _side(items: Sequence[Item]) -> dict[str, int]:
    return {"questions": len(items), "videos": len({item.video_key for item in items})}


def _basis(rates: Rates) -> str:
    return f"{rates.questions} recorded questions" if rates.questions else "assumed"


def _reply_tokens(config: SynthesisConfig, items: Sequence[Item], replies: ReplyTokens) -> dict[str, Any]:
    """Tokens of a request that asks for a first program, and of one that refines one."""
    if not config.asks_teacher or not (config.teacher or "").startswith("api:"):
        return {"in_first": 0.0, "out_first": 0.0, "in_refined": 0.0, "out_refined": 0.0, "basis": "free"}
    first = replies.mean(refining=False)
    if first is not None:
        # No refinement yet: as long as a first program, which it replaces.
        refined = replies.mean(refining=True) or first
        return {
            "in_first": first[0],
            "out_first": first[1],
            "in_refined": refined[0],
            "out_refined": refined[1],
            "basis": f"{replies.count} recorded replies",
        }
    reference = full_reference()
    sampled = [item.question for item in items[:: max(1, len(items) // _PROMPTS)]]
    planning = refining = 0
    for question in sampled:
        planning += len(prompts.plan(question, adaptive=False, reference=reference, examples=True))
        refining += len(
            refinement_prompt("native_refinement", question, prompts.NATIVE_PROGRAM, reference=reference)
        )
    return {
        "in_first": planning / len(sampled) / _CHARACTERS,
        "out_first": ASSUMED.tokens_out,
        "in_refined": refining / len(sampled) / _CHARACTERS,
        "out_refined": ASSUMED.tokens_out,
        "basis": f"prompts of {len(sampled)} questions at {_CHARACTERS} characters a token; "
        f"replies assumed at {ASSUMED.tokens_out:,.0f} tokens",
    }


def _usage(rates: Rates, tokens: Mapping[str, Any]) -> Counts:
    """Requests and tokens of a question."""
    if tokens["basis"] == "free":
        return {}
    first = rates.requests - rates.refinements
    return {
        "requests": rates.requests,
        "tokens_in": first * tokens["in_first"] + rates.refinements * tokens["in_refined"],
        "tokens_out": first * tokens["out_first"] + rates.refinements * tokens["out_refined"],
    }


def _sum(usages: Iterable[Counts]) -> Counts:
    total: Counts = {}
    for usage in usages:
        for name, number in usage.items():
            total[name] = total.get(name, 0.0) + number
    return total


def _end(
    config: SynthesisConfig,
    open_items: Sequence[Item],
    side_of: Mapping[str, Side],
    per_question: Mapping[Side, Counts],
    spent: TeacherUsage,
) -> int | None:
    """The number of open questions after which a cap is expected to be reached; None if none is."""
    prices = config.prices()
    requests: float = spent.requests
    cost = 0.0 if prices is None else prices.of(spent.tokens_in, spent.tokens_out)
    for number, item in enumerate(open_items):
        usage = per_question[side_of[item.id]]
        requests += usage.get("requests", 0.0)
        if config.max_requests is not None and requests > config.max_requests:
            return number
        if prices is None or config.max_cost is None:
            continue
        cost += prices.of(usage.get("tokens_in", 0.0), usage.get("tokens_out", 0.0))
        if cost > config.max_cost:
            return number
    return None


def _rows(counts: Counts, most: int | None, rules: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Expected rows by kind, and their number if at most so many are kept."""
    groups: Counts = {}
    rule_of = {kind: rule for rule, kinds in rules.items() for kind in kinds}
    for kind, count in counts.items():
        group = rule_of.get(kind, kind)
        groups[group] = groups.get(group, 0.0) + count
    left = sum(groups.values()) if most is None else min(most, sum(groups.values()))
    limited: Counts = {}
    # Smallest first: what a small group does not fill is left to the others, as `balance.even` takes rows.
    for position, (group, count) in enumerate(sorted(groups.items(), key=lambda entry: entry[1])):
        limited[group] = min(count, (left - sum(limited.values())) / (len(groups) - position))
    return {
        "by kind": {kind: round(count) for kind, count in counts.items()},
        "kept": {group: round(count) for group, count in sorted(limited.items())},
        "rows": round(sum(limited.values())),
        "target": most,
    }


FILTER_HEADS = ("filter", "removed", "questions", "videos")
PLAN_HEADS = ("", "expected", "rests on")


def filter_rows(steps: Sequence[Mapping[str, Any]]) -> list[tuple[str, str, str, str]]:
    """A row for each filter, and one for each closer reason."""
    rows = []
    for position, step in enumerate(steps):
        removed = "" if position == 0 else f"{step['removed']:,}"
        rows.append((step["name"], removed, f"{step['questions']:,}", f"{step['videos']:,}"))
        rows += [(f"- {reason}", f"{count:,}", "", "") for reason, count in step["because"].items()]
    return rows


def plan_rows(plan: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """What to expect, and what each figure rests on."""
    return [(name, value, basis) for name, value, basis in _plan_lines(plan) if value]


def _plan_lines(plan: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    basis, teacher, hours = plan["rests on"], plan["teacher"], plan["hours"]
    rates = " and ".join(dict.fromkeys(basis[side] for side in ("sft", "grpo") if side in basis))
    recorded = f", {plan['recorded']:,} of them recorded" if plan["recorded"] else ""
    yield "questions to ask", f"{plan['questions']:,} about {plan['videos']:,} videos{recorded}", "counted"
    if plan["missing videos"]:
        yield "videos that are not there", f"{plan['missing videos']:,}", "their questions end as errors"
    if len({str(side) for side in plan["sides"].values()}) > 1:
        for name, side in plan["sides"].items():
            yield f"for {name}.jsonl", f"{side['questions']:,} about {side['videos']:,} videos", "counted"
    for name, rows in plan["rows"].items():
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in rows["kept"].items())
        yield f"rows of {name}.jsonl", f"{rows['rows']:,} ({kinds})" if kinds else "0", rates
        if rows["target"] and rows["rows"] < rows["target"]:
            yield "", f"below {name}_rows, {rows['target']:,}", ""
    if basis["tokens"] != "free":
        yield "requests to the teacher", f"{teacher['requests']:,}", rates
        tokens = f"{_about(teacher['tokens in'])} + {_about(teacher['tokens out'])}"
        yield "tokens, prompts + replies", tokens, basis["tokens"]
    if teacher["cost"] is not None and basis["tokens"] != "free":
        yield "cost (estimate)", _about(teacher["cost"]), "tokens, price_in and price_out"
        yield "cost if every reply is of max_new_tokens", _about(teacher["most"]), "requests"
    if teacher["max_cost"] is not None and basis["tokens"] != "free":
        yield "max_cost", f"{teacher['max_cost']:,.6g}", "set"
    if teacher["ends at"] is not None:
        open_questions = plan["questions"] - plan["recorded"]
        yield "a cap ends it", f"after about question {teacher['ends at']:,} of {open_questions:,}", "cost"
    if basis["tokens"] != "free":
        yield "hours of the teacher (estimate)", f"{hours['teacher']:,}", basis["time"]
    yield "hours of the model on one GPU (estimate)", f"{hours['model']:,}", basis["time"]


def _about(number: float) -> str:
    """An estimate, to three digits."""
    if number >= 1e6:
        return f"{number / 1e6:.3g} million"
    return f"{float(f'{number:.3g}'):,.6g}"


def show_plan(plan: Mapping[str, Any], source: str) -> None:
    """Print the tables, and what an assumption is worth."""
    console = Console()
    for title, heads, rows in (
        (f"questions left of {source}", FILTER_HEADS, filter_rows(plan["filters"])),
        ("estimate", PLAN_HEADS, plan_rows(plan)),
    ):
        lefts = frozenset(() if heads is FILTER_HEADS else heads)
        console.print(TextTable(title, heads, tuple(rows), lefts=lefts))
    if "assumed" in plan["rests on"].values():
        print(
            "assumed: rates not measured on your model, teacher and source. Run 100 questions first (--limit "
            "100) to base the plan on measured rates."
        )
    print("Dry run: nothing was loaded, asked or written.")


def shortage(plan: Mapping[str, Any]) -> str | None:
    """What a cap leaves unasked, in a line; None if none does."""
    if plan["teacher"]["ends at"] is None:
        return None
    open_questions = plan["questions"] - plan["recorded"]
    return (
        f"a cap is expected to stop this after about question {plan['teacher']['ends at']:,} of "
        f"{open_questions:,} (estimate; videopro synthesize --plan shows its basis)"
    )
