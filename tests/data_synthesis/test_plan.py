"""The plan of a synthesis: its figures by hand, what they rest on, and that it spends nothing."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.synthesis import answered, cg, crashed, native, program, record, write_cg
from videopro.backbones import Backbone
from videopro.data_synthesis.plan import plan_rows
from videopro.data_synthesis.rates import measured_rates
from videopro.data_synthesis.run import main, run
from videopro.data_synthesis.settings import SynthesisConfig


def not_loaded(*args: Any, **settings: Any) -> Backbone:
    raise AssertionError("a plan loads no model")


@pytest.fixture
def cg_bench(tmp_path: Path) -> Path:
    """200 questions about 50 videos that are not there; mini has 20 more."""
    records = [cg(qid=i, video_uid=f"v{i % 50}", question=f"Question {i}?") for i in range(220)]
    write_cg(tmp_path / "cg", *records)
    return write_cg(tmp_path / "cg", *records[200:], name="cgbench_mini.json")


def config(root: Path, **more: Any) -> SynthesisConfig:
    base: dict[str, Any] = {
        "source": "cg_bench", "root": root, "model": "m", "output": root.parent / "out", "programs": 2,
        "teacher": "api:t@https://nowhere.invalid/v1", "api_key_env": "NO_SUCH_KEY", "plan": True,
        "price_in": 0.0, "price_out": 1.0,
    }  # fmt: skip
    return SynthesisConfig(**{**base, **more})


def test_the_figures_of_a_plan_by_hand(cg_bench: Path) -> None:
    """Of 200 questions, 35 % are assumed to be answered natively and confidently. Of 400 first programs 10 %
    fail, and 55 % are unsure or wrong."""
    plan = run(config(cg_bench, grpo_rows=300), load=not_loaded, load_teacher=not_loaded)
    assert [(step["name"], step["removed"], step["questions"]) for step in plan["filters"][-3:]] == [
        ("no known answer", 0, 220),
        ("question of CG-Bench mini", 20, 200),
        ("text of a held-out question", 0, 200),
    ]
    rows = plan["rows"]
    # R2: half of 130. R3: 45 % of 40. R4: 30 % of 130 native answers and of 220 programs.
    assert rows["sft"]["kept"] == {"R1": 70, "R2": 65, "R3": 18, "R4": 105}
    asked = {"plan": 200, "bug_fix": 40, "native_refinement": 130, "program_refinement": 220}
    assert rows["grpo"]["by kind"] == asked
    # 300 rows: the 40 bug fixes, and a third of 260 of each other kind.
    assert rows["grpo"]["kept"] == {**dict.fromkeys(asked, 87), "bug_fix": 40}
    # 400 first programs; 40 + 130 + 220 refinements; 2,000 tokens each at 1 per million, or 4,096.
    assert plan["teacher"]["requests"] == 790
    assert (plan["teacher"]["cost"], plan["teacher"]["most"]) == (1.58, 3.24)
    assert plan["rests on"]["sft"] == "assumed"
    assert plan["missing videos"] == 50
    # 790 replies of 30 s, eight at a time; 200 native answers of 2.3 s, 790 programs of 2.95, 50 x 60 s.
    assert plan["hours"] == {"teacher": 0.8, "model": 1.6}


@pytest.mark.parametrize(
    ("caps", "end"), [({"max_cost": 2.0}, None), ({"max_cost": 0.795}, 100), ({"max_requests": 397}, 100)]
)
def test_a_plan_says_where_a_cap_ends_it(cg_bench: Path, caps: dict[str, Any], end: int | None) -> None:
    """A question costs 0.0079 and 3.95 requests."""
    plan = run(config(cg_bench, **caps), load=not_loaded, load_teacher=not_loaded)
    assert plan["teacher"]["ends at"] == end
    told = dict(row[:2] for row in plan_rows(plan)).get("a cap ends it")
    assert told == (None if end is None else "after about question 100 of 200")


def test_a_plan_of_two_sides_asks_less_for_grpo(cg_bench: Path) -> None:
    two_sides = config(cg_bench, sft_share=0.4, grpo_programs=0)
    plan = run(two_sides, load=not_loaded, load_teacher=not_loaded)
    sides = plan["sides"]
    assert sides["sft"]["questions"] + sides["grpo"]["questions"] == 200
    assert sides["sft"]["videos"] + sides["grpo"]["videos"] == 50
    assert plan["rows"]["grpo"]["by kind"]["plan"] == sides["grpo"]["questions"]
    assert "bug_fix" not in plan["rows"]["grpo"]["by kind"]
    assert plan["teacher"]["requests"] == round(sides["sft"]["questions"] * 3.95)


def test_a_plan_asks_loads_and_writes_nothing(
    cg_bench: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], pocket_cache: None
) -> None:
    words = ["--source", "cg_bench", "--root", str(cg_bench), "--model", "no/such-model", "--plan"]
    words += ["--teacher", "api:t@https://nowhere.invalid/v1", "--output", str(tmp_path / "out")]
    before = sorted(tmp_path.rglob("*"))
    assert main([*words, "--limit", "900"], load=not_loaded, load_teacher=not_loaded) == 0
    shown = capsys.readouterr()
    few = "limit is 900, but only 200 questions are left (left out of 220: question of CG-Bench mini: 20)"
    assert few in shown.err
    assert "question of CG-Bench mini" in shown.out
    assert "nothing was loaded, asked or written." in shown.out
    assert sorted(tmp_path.rglob("*")) == before
    pocket = ["--source", "pocket", "--teacher", "pocket-teacher", "--model", "pocket", "--plan"]
    assert main([*pocket, "--output", str(tmp_path / "out")], load=not_loaded) == 0
    assert not (tmp_path / "out").exists()
    assert not list(tmp_path.rglob("*.mp4"))


def test_rates_are_measured_where_enough_is_recorded(cg_bench: Path) -> None:
    """Thirty questions: ten answered natively and surely, twenty whose one program failed and was fixed, as
    was the native answer."""
    sure = record(native("A", 0.9), program(answered("A", 0.9)))
    fixed = record(
        native("B", 0.9),
        program(crashed()),
        program(answered("A", 0.9), 4, kind="bug_fix", refines=1),
        program(answered("A", 0.9), 5, kind="native_refinement", refines=0),
    )
    traces = [sure] * 10 + [fixed] * 20
    rates = measured_rates(traces, "sft", config(cg_bench))
    assert (rates.questions, rates.requests, rates.refinements) == (30, 70 / 30, 40 / 30)
    assert rates.sft == {"native": 10 / 30, "bug_fix": 20 / 30, "native_refinement": 20 / 30}
    assert rates.grpo == {"plan": 1.0, "bug_fix": 20 / 30, "native_refinement": 20 / 30}
    assert measured_rates(traces[1:], "sft", config(cg_bench)) is None
    assert measured_rates(traces, "grpo", config(cg_bench, sft_share=1.0)) is None
