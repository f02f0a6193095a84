"""The tables of README and docs that are made of a file of results: one function a table, by topic."""

from perf.tables import (
    before_after,
    benchmarks,
    deciding,
    first_answer,
    house,
    results,
    road,
    samplers,
    sampling,
    scale,
    serving,
    speed,
    tiers,
    training_data,
    transcripts,
    where,
)
from perf.tables.shared import Tables, titled

TABLES: Tables = {
    **speed.TABLES,
    **serving.TABLES,
    **results.TABLES,
    **benchmarks.TABLES,
    **house.TABLES,
    **tiers.TABLES,
    **training_data.TABLES,
    **road.TABLES,
    **where.TABLES,
    **sampling.TABLES,
    **deciding.TABLES,
    **transcripts.TABLES,
    **scale.TABLES,
    **samplers.TABLES,
    **first_answer.TABLES,
    **before_after.TABLES,
}
"""By file, relative to the repository, and title."""

__all__ = ["TABLES", "titled"]
