"""Writes the texts beside it again: `python -m tests.golden.make`, from the root of the repository.

`tests/support/model_text_world.py` makes them, from this version's own code, and
`tests/question/test_model_text.py` holds every later version to them. Run it only when a text that a model
reads is to change, and read the difference (`git diff tests/golden`) before it is committed: checkpoints were
trained on the old words.
"""

import shutil
from pathlib import Path

from tests.support.model_text_world import GROUPS


def main() -> None:
    for group, texts in GROUPS.items():
        folder = Path(__file__).parent / group
        made = texts()
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for name, text in made.items():
            (folder / f"{name}.txt").write_bytes(text.encode())


if __name__ == "__main__":
    main()
