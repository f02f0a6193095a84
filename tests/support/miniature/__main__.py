"""Makes the miniature's files: python -m tests.support.miniature FOLDER

FOLDER gets data/ (five benchmarks' files as the hub has them), hub/ (for HF_HOME), easyocr/ (for
EASYOCR_MODULE_PATH) and videos/. Done again, it keeps what is there.
"""

import sys
from pathlib import Path

from tests.support.miniature.official import (
    write_cg_bench,
    write_longvideobench,
    write_lvbench,
    write_mlvu,
    write_videomme,
)
from tests.support.miniature.snapshots import make_easyocr, make_hub
from tests.support.miniature.videos import make_videos

BENCHMARKS = {
    "cg_bench": (write_cg_bench, ("short_000", "short_001", "short_002", "short_003", "medium_000")),
    "lvbench": (write_lvbench, ("medium_001",)),
    "videomme": (write_videomme, ("medium_002", "short_006", "short_007")),
    "longvideobench": (write_longvideobench, ("short_004",)),
    "mlvu": (write_mlvu, ("short_005",)),
}


def main(folder: Path) -> None:
    """Make what is missing."""
    videos = make_videos([name for _, names in BENCHMARKS.values() for name in names], folder / "videos")
    for benchmark, (write, names) in BENCHMARKS.items():
        root = folder / "data" / benchmark
        if not root.exists():
            part = root.with_name(f"{benchmark}.part")
            part.mkdir(parents=True, exist_ok=True)
            write(part, [videos[name] for name in names])
            part.rename(root)
    make_hub(folder / "hub")
    make_easyocr(folder / "easyocr")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
