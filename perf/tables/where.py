"""The table of what was run where."""

from __future__ import annotations

import yaml

from perf.tables.shared import Table, Tables


def _ran(text: str) -> Table:
    columns = ("path", "here", "gpu", "never")
    rows = [[row.get(column, "") for column in columns] for row in yaml.safe_load(text)["rows"]]
    return ["path", "run here (2-core CPU)", "on a GPU", "never run"], rows


TABLES: Tables = {("perf/ran.yaml", "what was run where"): _ran}
