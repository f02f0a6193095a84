"""What commands say of mistakes: the tables beside this file, a row for each mistake.

    - run: infer --benchmark {colours}/none.jsonl      what follows `videopro`, in an empty folder
      files: {mine.yaml: "model: pocket"}              written there before; optional
      says: "error: ..."                               a whole line of stderr, or of stdout
      status: 2                                        which is what a mistake has, if no other is given

`{colours}` is the folder of a small benchmark, `{run}` a finished run over it, `{video}` one of its videos,
`{here}` the folder in which the command runs. In `says`, `...` stands for any text. A mistake leaves nothing
behind in that folder, and is told in one line, before a model is loaded.
"""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.colours import flags, load_fake, make_benchmark
from videopro.__main__ import main
from videopro.commands.infer import main as infer

ROWS: list[tuple[str, dict[str, Any]]] = [
    (table.stem, row)
    for table in sorted(Path(__file__).parent.glob("*.yaml"))
    for row in yaml.safe_load(table.read_text(encoding="utf-8"))
]


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What rows name in braces."""
    colours, run = (tmp_path_factory.mktemp(name) for name in ("colours", "run"))
    make_benchmark(colours, videos=2, questions=1)
    assert infer(flags(colours, run / "whole"), load=load_fake) == 0
    return {"colours": str(colours), "run": str(run / "whole"), "video": str(colours / "videos" / "v0.mp4")}


@pytest.mark.parametrize("row", [pytest.param(row, id=f"{table}: {row['run']}") for table, row in ROWS])
def test_what_a_command_says(
    row: dict[str, Any],
    places: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    known = {**places, "here": str(tmp_path)}

    def placed(text: str) -> str:
        return re.sub(r"\{(colours|run|video|here)\}", lambda name: known[name[1]], text)

    for name, text in row.get("files", {}).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(placed(text), encoding="utf-8")
    before = sorted(tmp_path.rglob("*"))
    status = main([placed(word) for word in shlex.split(row["run"])])
    captured = capfd.readouterr()
    said = [*captured.err.splitlines(), *captured.out.splitlines()]
    pattern = ".*".join(re.escape(part) for part in placed(row["says"]).split("..."))
    assert any(re.fullmatch(pattern, line) for line in said), "\n".join(said)
    assert status == row.get("status", 2)
    if "status" not in row:
        assert (sorted(tmp_path.rglob("*")), len(captured.err.splitlines())) == (before, 1)
