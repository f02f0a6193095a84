"""An engine without --trust-request-mm-kwargs: what users are told, and what still works."""

import json
from pathlib import Path

import pytest

from tests.support.live_engine import Engine
from videopro.backbones import load_backbone
from videopro.commands.infer import main
from videopro.errors import BackboneError
from videopro.question import Question
from videopro.video import Frame

pytestmark = pytest.mark.live_untrusted

QUESTION = Question("Which colour is the box?", ("red", "blue"))
ADVICE = "start vLLM with --trust-request-mm-kwargs"


def test_video_alone_is_refused(engine: Engine, seen: list[Frame]) -> None:
    strict = load_backbone(f"server:pocket@{engine.url}", video="video")
    with pytest.raises(BackboneError, match=ADVICE):
        strict.answer(seen, QUESTION)
    strict.close()


def test_a_run_says_so_on_the_terminal_and_in_its_summary(
    engine: Engine, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "run"
    words = ("--benchmark", "pocket", "--split", "test", "--limit", "2", "--output", str(output))
    assert main([*words, "--model", f"server:pocket@{engine.url}"]) == 0
    assert ADVICE in " ".join(capfd.readouterr().err.split())
    summary = json.loads((output / "summary.json").read_text())
    assert (summary["questions"], summary["errors"]) == (2, {})
    assert any(ADVICE in note for note in summary["notes"])
