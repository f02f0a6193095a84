"""EasyOCR offline: its own architectures (a CRAFT detector, a CRNN recognizer) with random weights, in files
of the names that its Reader looks for. What it reads means nothing; that our path passes on what it reads
does."""

import hashlib
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw, ImageFont

from videopro.modules.errors import ModelError
from videopro.modules.models import load_ocr

SIDE = 480
"""Pictures of this shorter side are not enlarged before they are read."""


def picture() -> np.ndarray:
    image = Image.new("RGB", (SIDE, SIDE), (235, 235, 225))
    draw = ImageDraw.Draw(image)
    for text, x, y in (("HARBOR", 40, 60), ("EXIT", 300, 60), ("Gate 42", 40, 300)):
        draw.text((x, y), text, font=ImageFont.load_default(48), fill=(20, 20, 30))
    return np.asarray(image)


def write_weights(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Random weights; the detector's last layer is scaled so that some of the picture counts as text."""
    from easyocr import config
    from easyocr.craft import CRAFT
    from easyocr.imgproc import normalizeMeanVariance
    from easyocr.model.vgg_model import Model

    torch.manual_seed(0)
    detector = CRAFT(pretrained=False).eval()
    shown = torch.from_numpy(normalizeMeanVariance(picture()).transpose(2, 0, 1)[None])
    last = detector.conv_cls[-1]
    with torch.no_grad():
        scores = detector(shown)[0][0, :, :, 0]
        # From half of the places upwards, scores rise from 0 to 1; no place is a link between letters.
        low, high = scores.median(), scores.quantile(0.98)
        last.weight.copy_(torch.stack([last.weight[0] / (high - low), last.weight[1] * 0]))
        last.bias.copy_(torch.stack([(last.bias[0] - low) / (high - low), last.bias[1] * 0]))
    english = config.recognition_models["gen2"]["english_g2"]
    recognizer = Model(
        input_channel=1, output_channel=256, hidden_size=256, num_class=len(english["characters"]) + 1
    )
    # Else every place of every picture would be the same letter.
    with torch.no_grad():
        for weight in recognizer.parameters():
            weight.mul_(3)
    for model, facts in ((detector, config.detection_models["craft"]), (recognizer, english)):
        path = folder / facts["filename"]
        # As the published files, which were saved from DataParallel.
        torch.save({f"module.{name}": weight for name, weight in model.state_dict().items()}, path)
        patch.setitem(facts, "md5sum", hashlib.md5(path.read_bytes()).hexdigest())


@pytest.fixture(scope="module")
def weights() -> Iterator[Path]:
    pytest.importorskip("easyocr")
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        write_weights(Path(folder), patch)
        yield Path(folder)


@pytest.fixture(scope="module")
def read_by_easyocr(weights: Path) -> list[Any]:
    """What EasyOCR's own Reader reads in the picture: corners in pixels, text, score."""
    import easyocr

    reader = easyocr.Reader(
        ["en"], gpu=False, model_storage_directory=str(weights), download_enabled=False, verbose=False
    )
    found = reader.readtext(picture())
    assert len(found) > 2
    assert len({text for _, text, _ in found if text}) > 1
    return list(found)


@pytest.mark.long
def test_what_its_reader_reads_is_what_we_read(weights: Path, read_by_easyocr: list[Any]) -> None:
    regions = load_ocr(f"easyocr:en@{weights}", device="cpu").read(picture())
    expected = {
        (
            text,
            *(min(x for x, _ in corners) / SIDE, min(y for _, y in corners) / SIDE),
            *(max(x for x, _ in corners) / SIDE, max(y for _, y in corners) / SIDE),
            float(score),
        )
        for corners, text, score in read_by_easyocr
    }
    assert {(region.text, *region.box, region.score) for region in regions} == expected
    middles = [(region.box[1] + region.box[3]) / 2 for region in regions]
    tallest = max(region.box[3] - region.box[1] for region in regions)
    assert all(later > earlier - tallest / 2 for earlier, later in pairwise(middles))


def test_a_folder_without_weights_is_named_and_nothing_is_downloaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = pytest.importorskip("easyocr.config")
    with pytest.raises(ModelError, match="no such folder"):
        load_ocr(f"easyocr:en@{tmp_path / 'none'}")
    assert not (tmp_path / "none").exists()
    with pytest.raises(ModelError, match=r"craft_mlt_25k\.pth and downloads disabled"):
        load_ocr(f"easyocr:en@{tmp_path}")
    # The languages are looked at before the detector's file is read.
    (tmp_path / config.detection_models["craft"]["filename"]).write_bytes(b"weights")
    monkeypatch.setitem(config.detection_models["craft"], "md5sum", hashlib.md5(b"weights").hexdigest())
    with pytest.raises(ModelError, match="check the language codes"):
        load_ocr(f"easyocr:klingon@{tmp_path}")


def test_what_is_downloaded_is_downloaded_by_one_process_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # flock keeps two open files apart, of one process as of several.
    monkeypatch.setenv("VIDEOPRO_CACHE", str(tmp_path))
    loading, most = [0], [0]

    class Reader:
        device = "cpu"

        def __init__(self, languages: list[str], **settings: Any) -> None:
            if languages == ["de"]:
                # EasyOCR's own words about a file with another sum.
                raise AssertionError("MD5 hash mismatch, possible file corruption")
            loading[0] += 1
            most[0] = max(most[0], loading[0])
            time.sleep(0.05)
            loading[0] -= 1

    monkeypatch.setitem(sys.modules, "easyocr", SimpleNamespace(Reader=Reader))
    with ThreadPoolExecutor(4) as threads:
        assert len(list(threads.map(load_ocr, ["easyocr:en"] * 4))) == 4
    assert most == [1]
    with pytest.raises(ModelError, match="MD5 hash mismatch"):
        load_ocr("easyocr:de")


def test_off_the_cpu_texts_are_recognized_together(monkeypatch: pytest.MonkeyPatch) -> None:
    class Reader:
        device = "cuda:0"

        def __init__(self, languages: list[str], **settings: Any) -> None:
            # As EasyOCR's, a network for all GPUs.
            self.detector = self.recognizer = SimpleNamespace(module="for one GPU")

        def readtext(self, image: np.ndarray, batch_size: int) -> list[Any]:
            return [([[6, 8], [30, 4], [32, 16], [8, 20]], f"{batch_size} at once", 0.5)]

    monkeypatch.setitem(sys.modules, "easyocr", SimpleNamespace(Reader=Reader))
    reader: Any = load_ocr("easyocr:en,de")
    assert (reader._reader.detector, reader._reader.recognizer) == ("for one GPU", "for one GPU")
    (region,) = reader.read(np.zeros((SIDE, 640, 3), np.uint8))
    assert (region.text, region.score) == ("16 at once", 0.5)
    assert region.box == pytest.approx((6 / 640, 4 / SIDE, 32 / 640, 20 / SIDE))
    assert reader.identity() == ["easyocr", "en", "de", 16]
