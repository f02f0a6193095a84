"""Learning curves: what they show is what was logged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from videopro.errors import RunError
from videopro.train.curves import draw, main, mean, read_history, series, smooth


def line(step: int, **values: float | None) -> dict[str, Any]:
    return {"step": step, "epoch": step / 10, **values}


FIRST = [
    line(1, reward=0.2, entropy=2.0, **{"rewards/accuracy/mean": 0.1, "rewards/mode_consistency/mean": None}),
    line(1, eval_answer_accuracy=0.4),
    line(2, reward=0.4, entropy=1.0, **{"rewards/accuracy/mean": 0.3, "rewards/mode_consistency/mean": 0.5}),
    line(2, train_runtime=9.0),
]
SECOND = [line(2, reward=0.6), line(3, reward=1.0)]


def record(folder: Path, history: list[dict[str, Any]]) -> Path:
    folder.mkdir(parents=True)
    (folder / "training_record.json").write_text(json.dumps({"run": {}, "history": history}))
    return folder


def test_values_are_taken_by_step() -> None:
    assert series(FIRST, "reward") == {1: 0.2, 2: 0.4}
    assert series(FIRST, "rewards/mode_consistency/mean") == {2: 0.5}
    assert series(FIRST, "kl") == {}


def test_runs_are_averaged_where_they_have_a_step_and_smoothed_over_the_last() -> None:
    found = mean([series(FIRST, "reward"), series(SECOND, "reward")])
    assert found == pytest.approx({1: 0.2, 2: 0.5, 3: 1.0})
    assert smooth(found, 2) == pytest.approx({1: 0.2, 2: 0.35, 3: 0.75})
    assert smooth(found, 1) == pytest.approx(found)


def test_each_logged_metric_has_a_panel() -> None:
    figure = draw([FIRST, SECOND])
    titles = [axes.get_title() for axes in figure.axes]
    assert titles == ["reward", "rewards by name", "entropy", "held-out questions"]
    reward = figure.axes[0]
    # Both runs, then their mean.
    assert [list(line.get_ydata()) for line in reward.lines] == [[0.2, 0.4], [0.6, 1.0], [0.2, 0.5, 1.0]]
    names = [text.get_text() for text in figure.axes[1].get_legend().get_texts()]
    assert names == ["accuracy", "mode consistency"]


@pytest.mark.parametrize(
    ("refined", "names"),
    [(0.0, ["accuracy"]), (0.5, ["accuracy", "accuracy of first turns"])],
)
def test_first_turns_are_shown_where_some_episode_had_a_second(refined: float, names: list[str]) -> None:
    logged = {"rewards/accuracy/mean": 0.5, "programs/first_right": 0.5, "programs/native_share": 0.2}
    figure = draw([[line(1, **logged, **{"programs/refined": refined})]])
    shown = [[text.get_text() for text in axes.get_legend().get_texts()] for axes in figure.axes]
    assert shown == [names, ["native", "refined"] if refined else ["native"]]


def test_plots_are_written_to_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = record(tmp_path / "run", FIRST)
    assert main([str(run)]) == 0
    assert capsys.readouterr().out.split() == [str(run / "curves.png"), str(run / "curves.svg")]
    with Image.open(run / "curves.png") as picture:
        assert min(picture.size) > 300
        assert len(picture.convert("RGB").resize((64, 64)).getcolors(4096)) > 5
    assert "<svg" in (run / "curves.svg").read_text()
    assert main([str(run), str(record(tmp_path / "other", SECOND)), "--output", str(tmp_path / "both")]) == 0
    assert (tmp_path / "both" / "curves.svg").is_file()


def test_an_unfinished_run_is_read_from_its_last_checkpoint(tmp_path: Path) -> None:
    run = record(tmp_path / "run", [])
    for step in (9, 10):
        (run / f"checkpoint-{step}").mkdir()
        state = {"log_history": [line(step, reward=float(step))]}
        (run / f"checkpoint-{step}" / "trainer_state.json").write_text(json.dumps(state))
    assert series(read_history(run), "reward") == {10: 10.0}


def test_a_folder_without_a_run_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "nowhere")]) == 2
    assert "no step has been logged" in capsys.readouterr().err
    (tmp_path / "training_record.json").write_text("{")
    assert main([str(tmp_path)]) == 2
    assert "is not the record of a training run" in capsys.readouterr().err
    with pytest.raises(RunError, match="logged no GRPO metrics"):
        draw([[line(1, loss=0.3)]])
