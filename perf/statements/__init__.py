"""The statements of README and docs that are made of recorded results: what ran where, how long, how good.

A page names such a text by `<!-- said from FILE: TITLE -->` and `launch/recorded_tables.py` writes it; a test
compares. A function makes a text of a file's content, by topic.
"""

from perf.statements import durations, pocket, sampling, speed, where
from perf.statements.shared import Statements

STATEMENTS: Statements = {
    **durations.STATEMENTS,
    **pocket.STATEMENTS,
    **sampling.STATEMENTS,
    **speed.STATEMENTS,
    **where.STATEMENTS,
}
"""By file, relative to the repository, and title."""

__all__ = ["STATEMENTS"]
