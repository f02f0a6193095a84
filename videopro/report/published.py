"""The paper's own Tables 1 to 5 (VideoPro; of Table 1 the backbones and VideoPro), to show next to ours.

They were measured on other machines and models and, for pocket, other data, so nothing is compared with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from videopro.report.section import Section
from videopro.report.table import AS_PUBLISHED, Cell, Number, Table

_LONG, _LVBENCH, _LVB = "Video-MME, long", "LVBench", "LongVideoBench"
_QWEN2_5, _QWEN3 = "Qwen2.5-VL-7B", "Qwen3-VL-8B"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str | float]], note: str) -> Table:
    cells: list[tuple[Cell, ...]] = [
        tuple(cell if isinstance(cell, str) else Number(cell) for cell in row) for row in rows
    ]
    return Table("As published", tuple(heads), tuple(cells), (note,), suffix=AS_PUBLISHED)


_MAIN = _table(
    ("", _LVBENCH, _LONG, _LVB, "MLVU", "mean", "gain over native"),
    (
        (_QWEN2_5, 38.3, 50.0, 58.6, 48.0, 48.7, ""),
        (f"{_QWEN2_5} + VideoPro", 47.2, 56.7, 60.9, 49.6, 53.6, "+4.9"),
        (_QWEN3, 40.2, 56.3, 61.5, 53.6, 52.9, ""),
        (f"{_QWEN3} + VideoPro", 49.7, 68.8, 64.5, 55.2, 59.6, "+6.7"),
    ),
    "Accuracy in percent at 64 frames; LongVideoBench's validation set, MLVU's test set.",
)
_EFFICIENCY = _table(
    ("benchmark", "method", "accuracy, %", "output length", "runtime, s"),
    (
        (_LONG, "native", 56.3, "255", 2.1),
        (_LONG, "program", 66.7, "1,496", 8.2),
        (_LONG, "adaptive", 66.8, "825", 5.2),
        (_LONG, "+ refinement", 68.8, "1,326", 7.1),
        (_LVBENCH, "native", 40.2, "255", 2.3),
        (_LVBENCH, "program", 46.4, "1,594", 8.2),
        (_LVBENCH, "adaptive", 48.1, "1,227", 5.9),
        (_LVBENCH, "+ refinement", 49.7, "1,435", 7.8),
    ),
    f"{_QWEN3} after SFT and GRPO.",
)
_MODULES = _table(
    ("modules", _LONG, "difference", _LVBENCH, "difference"),
    (
        ("all modules", 61.2, "", 44.5, ""),
        ("without retrieval", 57.3, "-3.9", 42.8, "-1.7"),
        ("without localization", 57.5, "-3.7", 42.8, "-1.7"),
        ("without extraction", 58.1, "-3.1", 43.9, "-0.6"),
        ("without context", 56.6, "-4.6", 43.8, "-0.7"),
    ),
    f"Accuracy in percent of {_QWEN3} after SFT, before refinement.",
)
_TRAINING = _table(
    (
        *("model", "strategy", f"{_LONG}: reasoning, %", "+ refinement, %"),
        *(f"{_LVBENCH}: reasoning, %", "+ refinement, %"),
    ),
    (
        (_QWEN3, "SFT", 61.2, 65.0, 44.5, 49.1),
        (_QWEN3, "SFT + GRPO", 66.8, 68.8, 48.1, 49.7),
        (_QWEN2_5, "SFT", 52.2, 58.1, 42.1, 46.7),
        (_QWEN2_5, "SFT + GRPO", 53.2, 56.7, 45.4, 47.2),
    ),
    "Qwen2.5-VL on Video-MME loses by GRPO with refinement (58.1 to 56.7).",
)
_MODES = _table(
    ("benchmark", "native, %", "program, %", "refined, %"),
    ((_LVB, 29.4, 70.6, 35.9), (_LVBENCH, 17.7, 82.3, 55.5)),
    f"{_QWEN3} after SFT and GRPO.",
)

PUBLISHED = {
    "main": _MAIN,
    "efficiency": _EFFICIENCY,
    "modules": _MODULES,
    "training": _TRAINING,
    "modes": _MODES,
}
"""The paper's table for each section that has one."""


def with_published(section: Section) -> Section:
    """The section with the paper's table after its own tables, if the paper has one."""
    if section.name not in PUBLISHED:
        return section
    own = PUBLISHED[section.name]
    table = replace(own, title=f"{own.title}: {section.source} of the paper")
    return replace(section, tables=(*section.tables, table))
