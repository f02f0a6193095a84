"""The other papers' tables: published values that the papers state twice, and our runs in the right rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.agent_runs import DATABASE, agent_run, agent_trace, reply, unparsed
from tests.support.report_world import answers, write_run
from videopro.errors import ConfigError
from videopro.methods import METHODS
from videopro.report.papers import BUILDERS, FAMILIES, dvd, lvagent, vca, videoagent
from videopro.report.papers.spec import PaperTable
from videopro.report.reading import read_runs
from videopro.report.section import MissingRuns, Section
from videopro.report.sections import build
from videopro.report.table import Table, cell_text
from videopro.traces import Preparation, Segment, Step

TABLES: dict[str, PaperTable] = {
    table.name: table for table in (*videoagent.TABLES, *dvd.TABLES, *vca.TABLES)
}


def section(name: str, *folders: Path) -> Section:
    return BUILDERS[name](read_runs(list(map(str, folders))))


def cells(table: Table, label: str) -> dict[str, str]:
    """The row of a label, by heading; empty cells are left out."""
    (row,) = [row for row in table.rows if row[1] == label]
    return {head: cell_text(cell) for head, cell in zip(table.heads, row, strict=True) if cell is not None}


def published(name: str, label: str) -> dict[str, Any]:
    table = TABLES[name]
    (row,) = [row for row in table.rows if row.label == label]
    return dict(zip(table.columns, row.published, strict=False))


# ---- what the papers say ---------------------------------------------------------------------------------


def test_the_names_that_are_promised() -> None:
    promised = {
        *(f"videoagent-{number}" for number in range(1, 9)),
        *(f"dvd-{number}" for number in range(2, 6)),
        *(f"vca-{number}" for number in (1, 2, 3, 4, 5, 6, 10, 11)),
        *("videoagent-fig3", "dvd-fig3", "vca-fig5", "lvagent-times", "lvagent-agents"),
    }
    assert set(BUILDERS) == promised
    assert {name for family in FAMILIES.values() for name in family} == promised


def test_no_row_has_more_values_than_the_table_has_columns() -> None:
    for table in TABLES.values():
        assert all(len(row.published) <= len(table.columns) for row in table.rows), table.name
        assert len({row.label for row in table.rows}) == len(table.rows), table.name


def test_videoagents_numbers_agree_with_each_other() -> None:
    """The paper's text: 60.2 % with 8.4 frames on the subset, 54.1 % on all, 3.8 % above LLoVi; 3.6 % above
    LLoVi on NExT-QA; 3.6 % lost without segments, 0.6 % without self-evaluation."""
    own = published("videoagent-1", "VideoAgent")
    assert own == {"frames": 8.4, "subset": 60.2, "full": 54.1}
    assert own["full"] - published("videoagent-1", "LLoVi")["full"] == pytest.approx(3.8)
    assert published("videoagent-2", "VideoAgent") == {"subset": 60.2, "full": 54.1}
    nextqa = published("videoagent-3", "VideoAgent")["all"]
    assert nextqa - published("videoagent-3", "LLoVi")["all"] == pytest.approx(3.6)
    whole = published("videoagent-5", "VideoAgent")
    assert whole == published("videoagent-4", "5 first frames")
    for part, loss in (("without segment selection", 3.6), ("without self-evaluation", 0.6)):
        lost = whole["EgoSchema subset"] - published("videoagent-5", part)["EgoSchema subset"]
        assert lost == pytest.approx(loss)
    for name, label in (("6", "GPT-4"), ("7", "LaViLa"), ("8", "EVA-CLIP-8B-plus")):
        assert published(f"videoagent-{name}", label)["EgoSchema subset"] == 60.2


def test_dvds_numbers_agree_with_each_other() -> None:
    """13.4 % above MR. Video, 32.9 above VCA, 17.1 above o3, 1.8 by transcripts; what models and tools lose;
    and Table 3 repeats what Table 2 says of LVBench (but for Gemini-2.0-Flash)."""
    whole = published("dvd-2", "Deep Video Discovery")["all"]
    for other, gain in (("MR. Video", 13.4), ("VCA", 32.9), ("OpenAI o3", 17.1)):
        assert whole - published("dvd-2", other)["all"] == pytest.approx(gain)
    heard = published("dvd-2", "with transcripts")["all"]
    assert heard - whole == pytest.approx(1.8)
    column = "LVBench with transcripts"
    models = {row.label: row.published[0] for row in TABLES["dvd-4"].rows}
    assert models["captioner 4.1, llm o3, vqa o3"] == heard
    for label, loss in (
        ("captioner 4.1-mini, llm o3, vqa o3", 4.1),
        ("captioner 4.1, llm o3, vqa 4.1-mini", 3.7),
        ("captioner 4.1, llm o4-mini, vqa o3", 5.8),
        ("captioner 4.1, llm 4o, vqa o3", 13.7),
    ):
        value = models[label]
        assert isinstance(value, float)
        assert heard - value == pytest.approx(loss)
    anchor = published("dvd-5", "all tools")[column]
    assert anchor == models["captioner 4.1-mini, llm o3, vqa o3"]
    for tool, loss in (("Global Browse", 2.9), ("Clip Search", 12.3), ("Frame Inspect", 8.4)):
        assert anchor - published("dvd-5", f"without {tool}")[column] == pytest.approx(loss)
    both = {row.label for row in TABLES["dvd-2"].rows} & {row.label for row in TABLES["dvd-3"].rows}
    assert len(both) >= 9
    for label in both - {"Gemini-2.0-Flash"}:
        assert published("dvd-2", label)["all"] == published("dvd-3", label)["LVBench"]
    long = "LongVideoBench val, long"
    ours, best = (published("dvd-3", label)[long] for label in ("Deep Video Discovery", "MR. Video"))
    assert ours - best == pytest.approx(7.0)


def test_vcas_numbers_agree_with_each_other() -> None:
    """6.6 % above GPT-4o on LVBench, 3.2 on EgoSchema; the same rows in several tables; less than a fifth of
    VideoTree's frames on Video-MME, and about three quarters of VideoAgent's (its text claims 4.9 and 12.1
    points there, its table gives 3.2 and 9.9). DVD repeats the rows of LVBench."""
    own = published("vca-1", "VCA")
    assert own["all"] - published("vca-1", "GPT-4o")["all"] == pytest.approx(6.6)
    ego = published("vca-2", "VCA")
    assert ego["subset"] - published("vca-2", "GPT-4o, 32 frames")["subset"] == pytest.approx(3.2)
    parts = published("vca-3", "VCA")
    assert [parts["EgoSchema"], parts["EgoSchema: frames"]] == [ego["subset"], ego["frames"]]
    assert [parts["LVBench"], parts["LVBench: frames"]] == [own["all"], own["frames"]]
    assert published("vca-4", "16 frames")["LVBench"] == own["all"]
    oracle = published("vca-6", "VCA")
    assert [oracle["GPT-4o"], oracle["GPT-4o: frames"]] == [own["all"], own["frames"]]
    whole = published("vca-10", "all")
    assert whole["VCA"] - whole["VideoTree"] == pytest.approx(3.2)
    assert whole["VCA"] - whole["VideoAgent"] == pytest.approx(9.9)
    frames = published("vca-10", "frames")
    assert frames["VCA"] / frames["VideoTree"] < 0.2
    assert frames["VCA"] / frames["VideoAgent"] == pytest.approx(0.75, abs=0.02)
    for label, suffix in (("VideoTree", " (GPT-4o)"), ("VideoAgent", " (GPT-4o)"), ("VCA", "")):
        again = published("dvd-2", label)
        assert all(again[name] == published("vca-1", label + suffix)[name] for name in again)


def test_lvagents_times_add_up() -> None:
    """Hours of the parts, and seconds per video: 13,943 videos, of which 750 in the preselection."""
    hours = {part: value for part, value, _ in lvagent.TIMES}
    each = {part: value for part, _, value in lvagent.TIMES}
    parts = ("fine-tuning of ASP-CLIP", "preselection, 750 videos", "evaluation")
    assert sum(hours[part] for part in parts) == pytest.approx(hours["LVAgent in all"])
    for part, videos in (
        *((name, 13943) for name in ("Qwen2-VL-72B alone", "evaluation", "LVAgent in all")),
        ("preselection, 750 videos", 750),
    ):
        assert 3600 * hours[part] / videos == pytest.approx(each[part], abs=0.06)
    three, four = lvagent.THREE_AGENTS[-1], lvagent.FOUR_AGENTS[-1]
    assert three == each["evaluation"]
    assert four is not None
    assert three is not None
    assert four - three == pytest.approx(5.1)


def test_ablations_are_settings_with_the_papers_defaults() -> None:
    """The selectors name settings that the methods have, and their defaults are the paper's values."""
    for paper in (videoagent.PAPER, dvd.PAPER, vca.PAPER):
        if paper.method not in METHODS:
            continue
        defaults = METHODS[paper.method].Settings()
        for name, value in paper.ablated.items():
            assert getattr(defaults, name) == value, f"{paper.method}: {name}"
        for table in (table for table in TABLES.values() if table.paper is paper):
            for row in table.own_rows:
                METHODS[paper.method].Settings(**(row.settings or {}))
            assert all(hasattr(defaults, name) for name in table.varied), table.name


# ---- our runs in them ------------------------------------------------------------------------------------


@pytest.fixture
def ablation(tmp_path: Path) -> list[Path]:
    """VCA, without reward, without tree search, with a buffer of four; direct answers at 8 frames."""
    return [
        write_run(tmp_path / "vca", agent_run("AAAB"), method="vca", preset="equal"),
        write_run(tmp_path / "no-reward", agent_run("AABB"), method="vca", reward="none"),
        write_run(tmp_path / "no-tree", agent_run("ABBB"), method="vca", tree_search=False),
        write_run(tmp_path / "buffer", agent_run("AAAA"), method="vca", buffer=4),
        write_run(tmp_path / "native", answers("ABBB"), frames=8),
    ]


def test_rows_are_found_by_settings(ablation: list[Path]) -> None:
    (table,) = section("vca-3", *ablation).tables
    assert cells(table, "VCA")["accuracy, %"].startswith("75.0 (")
    assert cells(table, "VCA")["LVBench, published"] == "41.3"
    assert cells(table, "without reward")["accuracy, %"].startswith("50.0 (")
    assert cells(table, "without tree search")["accuracy, %"].startswith("25.0 (")
    assert cells(table, "without tree search")["frames seen"] == "4.0"
    assert "ER" not in table.heads, "pocket has no abilities"
    assert len(table.rows) == 3
    assert "Published: the paper's own numbers" in " ".join(table.notes)


def test_other_values_get_rows_of_their_own(ablation: list[Path]) -> None:
    (table,) = section("vca-4", *ablation).tables
    assert cells(table, "buffer 4")["accuracy, %"].startswith("100.0 (")
    assert cells(table, "buffer unset")["accuracy, %"].startswith("75.0 (")
    assert set(cells(table, "32 frames")) == {"benchmark", "system", "LVBench, published"}
    assert any("--options buffer=16" in note for note in table.notes)


def test_other_methods_stand_beside_the_papers_systems(ablation: list[Path]) -> None:
    (table,) = section("vca-2", *ablation).tables
    assert cells(table, "Native VideoLLM")["questions"] == "4"
    assert "frames, published" not in cells(table, "Native VideoLLM")
    assert cells(table, "GPT-4o, 8 frames")["subset, published"] == "69.0"


def test_a_missing_run_is_named_with_its_command(ablation: list[Path]) -> None:
    with pytest.raises(MissingRuns, match=r"vca-3: make runs .*--method vca --options reward=none"):
        section("vca-3", ablation[0])
    with pytest.raises(MissingRuns, match=r"vca-6: .*--options reward=evidence"):
        section("vca-6", *ablation)
    with pytest.raises(MissingRuns, match=r"dvd-5: .*tools=\[clip_search, frame_inspect\]"):
        section("dvd-5", *ablation)
    with pytest.raises(MissingRuns, match=r"videoagent-6: .*--options llm=LLM"):
        section("videoagent-6", *ablation)
    for name in ("lvagent-times", "lvagent-agents", "dvd-fig3", "vca-fig5", "videoagent-fig3"):
        with pytest.raises(MissingRuns, match=f"{name}: "):
            section(name, ablation[-1])


def test_a_familys_name_makes_what_the_runs_allow(ablation: list[Path]) -> None:
    runs = read_runs(list(map(str, ablation)))
    made, lacking = build(runs, ("vca",))
    assert [section.name for section in made] == ["vca-1", "vca-2", "vca-3", "vca-4", "vca-10", "vca-11"]
    assert [reason.partition(":")[0] for reason in lacking] == ["vca-5", "vca-6", "vca-fig5"]
    # Without names: the tables of the methods that were given, and no reasons about others.
    made, lacking = build(runs)
    names = {section.name for section in made}
    assert {"costs", "vca-3"} <= names
    assert not any(name.startswith(("dvd", "lvagent", "videoagent")) for name in names)
    assert not any(reason.startswith(("dvd", "lvagent", "videoagent")) for reason in lacking)
    with pytest.raises(ConfigError, match="unknown table 'vca-33'; did you mean 'vca-3'"):
        build(runs, ("vca-33",))


def test_no_number_is_made_up(tmp_path: Path) -> None:
    """A model whose replies cannot be read has no accuracy, whatever letters were forced."""
    lost = [agent_trace(number, "A", [unparsed()]) for number in range(4)]
    path = write_run(tmp_path / "d", lost, method="videoagent")
    (table,) = section("videoagent-1", path).tables
    said = "needs a language model: 4 of 4 replies could not be parsed"
    assert cells(table, "VideoAgent")["accuracy, %"] == said
    (costs, _) = section_costs(path)
    assert said in [cell_text(cell) for cell in costs.rows[0]]


def section_costs(*folders: Path) -> tuple[Table, ...]:
    made, _ = build(read_runs(list(map(str, folders))), ("costs",))
    return made[0].tables


def test_models_in_roles_name_their_rows(tmp_path: Path) -> None:
    first = write_run(tmp_path / "a", agent_run("AB"), method="videoagent", llm="self")
    second = write_run(tmp_path / "b", agent_run("AA"), method="videoagent", llm="api:gpt")
    cut = write_run(tmp_path / "c", agent_run("AA"), method="videoagent", llm="api:x", max_rounds=1)
    (table,) = section("videoagent-6", first, second, cut).tables
    assert cells(table, "llm tiny")["accuracy, %"].startswith("50.0")
    assert cells(table, "llm api:gpt")["accuracy, %"].startswith("100.0")
    assert "llm api:x" not in [row[1] for row in table.rows], "an ablation is not the paper's system"


def test_frames_of_each_type_of_question(tmp_path: Path) -> None:
    """NExT-QA's codes are the paper's three types."""
    steps = {"CW": (1, 2), "CH": (1, 2, 3, 4), "TN": tuple(range(8)), "DO": (1,)}
    traces = [
        agent_trace(number, "A", [reply(times=times)], groups={"type": kind})
        for number, (kind, times) in enumerate(steps.items())
    ]
    path = write_run(tmp_path / "v", traces, method="videoagent", benchmark="nextqa", split="val",
                     protocol={"groups": ["type"]})  # fmt: skip
    made = section("videoagent-fig3", path)
    rows = {row[2]: row for row in made.tables[1].rows}
    assert [cell_text(cell) for cell in rows["causal"][3:]] == ["2", "2", "3.0", "4", "7.1"]
    assert [cell_text(cell) for cell in rows["temporal"][3:]] == ["1", "8", "8.0", "8", "7.8"]
    assert made.figure is not None
    assert made.figure.draw().axes


def choice(chosen: int, best: int) -> list[Step]:
    """Four parts of a minute, of which one is chosen and one has the best score."""
    parts = tuple(
        Segment(15.0 * place, 15.0 * place + 15, str(place), score=90.0 if place == best else 10.0)
        for place in range(4)
    )
    return [reply("reward", segments=parts), reply("explore", segments=(parts[chosen],))]


def test_distances_of_segments(tmp_path: Path) -> None:
    """The evidence is in the second part: chosen at once and one too late; the best score one and two off."""
    traces = [
        agent_trace(0, "A", choice(1, 0), evidence=((16.0, 20.0),)),
        agent_trace(1, "B", choice(2, 3), evidence=((16.0, 20.0),)),
        agent_trace(2, "B", choice(2, 3)),
    ]
    made = section("vca-fig5", write_run(tmp_path / "v", traces, method="vca"))
    rows = {str(row[2]): [cell_text(cell) for cell in row[3:]] for row in made.tables[0].rows}
    assert rows["the agent's choice"] == ["2", "2", "0.50", "0.50", "50.0"]
    assert rows["the highest score"] == ["2", "2", "1.50", "0.50", "0.0"]
    assert made.figure is not None
    assert len(made.figure.draw().axes) == 2


def test_behaviours(tmp_path: Path) -> None:
    """A browse and an answer; two searches and an inspection."""
    act = reply("act")
    tools = lambda *names: [step for name in names for step in (act, Step(name))]  # noqa: E731
    traces = [
        agent_trace(0, "A", tools("global_browse", "answer")),
        agent_trace(1, "A", tools("clip_search", "clip_search", "frame_inspect", "answer")),
        agent_trace(2, "B", tools("clip_search", "answer")),
    ]
    made = section("dvd-fig3", write_run(tmp_path / "d", traces, method="dvd"))
    rows = {str(row[2]): [cell_text(cell) for cell in row[3:]] for row in made.tables[0].rows}
    assert rows["Global Browse only"] == ["1", "33.3", "2.0", "100.0"]
    assert rows["simple action"] == ["2", "66.7", "3.0", "50.0"]
    assert made.figure is not None
    assert len(made.figure.draw().axes) == 3


def test_numbers_of_agents_and_times(tmp_path: Path) -> None:
    """Two of three questions begin with different letters; half an hour of preselection."""

    def said(*letters: str | None) -> list[Step]:
        return [
            reply("answer", parsed={"letter": letter, "confidence": 0.5}, cost=reply().cost)
            for letter in letters
        ]

    selected = Preparation("selection", "pocket/all/3 agents", DATABASE.cost.share(1), is_known=False)
    traces = [
        agent_trace(0, "A", said("A", "A"), prepared=(selected,)),
        agent_trace(1, "A", said("A", "B"), prepared=(selected,)),
        agent_trace(2, "B", said("B", None), prepared=(selected,)),
    ]
    path = write_run(tmp_path / "lv", traces, method="lvagent", agents=["pocket", "pocket+x"])
    native = write_run(tmp_path / "n", answers("AAA"))
    (table, given) = section("lvagent-agents", path, native).tables
    (row,) = table.rows
    assert [cell_text(cell) for cell in row[2:4]] == ["2", "3"]
    assert cell_text(row[6]) == "66.7"
    assert [cell_text(cell) for cell in given.rows[1]][:3] == ["4", "83.0", "80.1"]
    (times, _) = section("lvagent-times", path, native).tables
    found = {str(row[1]): row[2:] for row in times.rows}
    # A quarter of a second besides two steps of half a second: 3.75 s for the videos 0 and 1.
    assert cell_text(found["LVAgent: evaluation"][2]) == "1.88"
    assert cell_text(found["LVAgent: in all, at least"][2]) == "3.38"
    assert "Native VideoLLM alone" in found
