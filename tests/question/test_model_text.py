"""What a model reads is byte for byte what `tests/golden` holds.

A prompt that changes by a letter is another prompt to a trained model, to recorded runs and to remembered
replies, so a change must be a decision: `python -m tests.golden.make` writes the files again.
"""

import pytest

from tests.support import ROOT
from tests.support.model_text_world import GROUPS

GOLDEN = ROOT / "tests" / "golden"


@pytest.mark.parametrize("group", GROUPS)
def test_what_a_model_reads_is_unchanged(group: str) -> None:
    made = GROUPS[group]()
    assert sorted(made) == sorted(path.stem for path in (GOLDEN / group).iterdir())
    for name, text in made.items():
        # Bytes, decoded: reading as text would change line ends.
        assert text == (GOLDEN / group / f"{name}.txt").read_bytes().decode(), f"{group}/{name}.txt"


def test_every_group_of_golden_texts_is_generated() -> None:
    assert {path.name for path in GOLDEN.iterdir() if path.is_dir()} - {"__pycache__"} == set(GROUPS)
