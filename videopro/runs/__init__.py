"""Reading a run: its folder, its growing traces, its summary, judging and submission."""

from videopro.runs.asked import ASKED, AskedRun, asked_identity, generation_identity
from videopro.runs.combining import CombineConfig, combine, combine_cg_bench
from videopro.runs.finding import find_runs
from videopro.runs.folder import RUN_FIELDS, RunFolder, identity_difference, run_key
from videopro.runs.grading import grade_of, read_official
from videopro.runs.judging import (
    JudgeConfig,
    judge_run,
    read_grades,
    recorded_protocol,
)
from videopro.runs.resuming import check_files, check_model, check_questions
from videopro.runs.serving import Served, read_vllm_settings
from videopro.runs.submission import SubmitConfig, submit
from videopro.runs.summary import metric_lines, summarize, summary_table, write_summary
from videopro.runs.tail import RunTail
from videopro.runs.text_table import TextTable

__all__ = [
    "ASKED",
    "AskedRun",
    "asked_identity",
    "generation_identity",
    "CombineConfig",
    "RunTail",
    "JudgeConfig",
    "RUN_FIELDS",
    "RunFolder",
    "Served",
    "SubmitConfig",
    "TextTable",
    "check_files",
    "check_model",
    "check_questions",
    "combine",
    "combine_cg_bench",
    "find_runs",
    "grade_of",
    "identity_difference",
    "judge_run",
    "metric_lines",
    "read_grades",
    "read_official",
    "read_vllm_settings",
    "recorded_protocol",
    "run_key",
    "submit",
    "summarize",
    "summary_table",
    "write_summary",
]
