"""Reading what a judge replied, robustly and as the official code does."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from videopro.benchmarks import JudgeGrade, JudgePrompt
from videopro.question import written_result
from videopro.runs.verdicts import read_verdict


def shown_answer(reply: str, judge: JudgePrompt) -> str:
    """The answer that the judge is shown: the reply, or for CG-Bench the "result" of its JSON block."""
    if judge.style != "cgbench":
        return reply
    result = written_result(reply)
    return reply if result is None else str(result)


def needs_look(reply: str, judge: JudgePrompt) -> bool:
    """Whether the judge is to look at the clue after this first reply, by either reading."""
    if judge.unsure is None:
        return False
    official = read_cg_bench(reply, "012")
    return read_grade(reply, judge) == judge.unsure or official not in (None, 0, 1)


def grade_of(line: Mapping[str, Any], judge: JudgePrompt) -> JudgeGrade:
    """The grades of a line of grades.jsonl: the judge's reply "raw", and "look" if it was asked twice. A
    reply that a limit of tokens cut off has none, whatever it came to say."""
    if line.get("cut_at") is not None:
        return JudgeGrade(None, None)
    raw, look = line["raw"], line.get("look")
    robust = read_grade(raw, judge)
    if judge.style != "cgbench":
        return JudgeGrade(robust, read_official(raw))
    official = read_cg_bench(raw, "012")
    if robust == judge.unsure:
        robust = None if look is None else read_grade(look, judge, high=1)
    if official not in (None, 0, 1):
        official = None if look is None else read_cg_bench(look, "01")
    # Whatever else a second reply says is counted, and is not right.
    return JudgeGrade(robust, None if official is None else int(official == 1))


def why_ungraded(line: Mapping[str, Any], judge: JudgePrompt) -> str:
    """Why a line has no grade, in a few words; empty if it has one."""
    if line.get("error"):
        return "the request failed"
    if line.get("cut_at") is not None:
        return f"the reply was cut off at {line['cut_at']} tokens"
    if grade_of(line, judge).robust is not None:
        return ""
    reply = line.get("look", line["raw"])
    return "the reply has no grade of the scale" if reply.strip() else "the reply is empty"


def read_grade(reply: str, judge: JudgePrompt, *, high: int | None = None) -> int | None:
    """The grade in a judge's reply; None for none or several. `high`: the end of the scale, if it is not the
    judge's own."""
    return read_verdict(reply, judge.low, judge.high if high is None else high)


def read_official(reply: str) -> int | None:
    """The grade as VLMEvalKit parses it (MMBenchVideo.evaluate, commit 401916c): a reply that Python reads
    as a whole number, signed or not, and nothing else. Numbers of more than 18 digits are rejected, as they
    could not be averaged."""
    match = re.fullmatch(r"\s*([+-]?(?:0+|[1-9]\d{0,17}))\s*", reply, re.ASCII)
    return int(match[1]) if match else None


def read_cg_bench(reply: str, digits: str) -> Any:
    """What run/utils.py (post_process, commit 6677fe3) of CG-Bench/CG-Bench reads: the "result" of the first
    ```json block, of any type, else the first of the `digits` anywhere; None if there is neither."""
    result = written_result(reply)
    if result is not None:
        return result
    digit = re.search(f"[{digits}]", reply)
    return int(digit[0]) if digit else None
