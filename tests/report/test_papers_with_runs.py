"""The other papers' tables: our runs in the right rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.agent_runs import DATABASE, agent_run, agent_trace, reply, unparsed
from tests.support.report_world import answers, write_run
from videopro.errors import ConfigError
from videopro.report.papers import BUILDERS
from videopro.report.reading import read_runs
from videopro.report.sections import build
from videopro.report.table import MissingRuns, Section, Table, cell_text
from videopro.traces import Preparation, Segment, Step


def section(name: str, *folders: Path) -> Section:
    return BUILDERS[name](read_runs(list(map(str, folders))))


def cells(table: Table, label: str) -> dict[str, str]:
    """The row of a label, by heading; empty cells are left out."""
    (row,) = [row for row in table.rows if row[1] == label]
    return {head: cell_text(cell) for head, cell in zip(table.heads, row, strict=True) if cell is not None}


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


def test_a_comparison_needs_two_runs_on_one_benchmark(tmp_path: Path) -> None:
    """Runs on different questions compare nothing, so all of the table's runs are asked for."""
    here = write_run(tmp_path / "a", agent_run("AAAB"), method="vca")
    there = write_run(tmp_path / "b", agent_run("AABB"), method="vca", split="other", reward="none")
    with pytest.raises(MissingRuns, match=r"vca-3: .*--method vca \.\.\.`.*reward=none"):
        section("vca-3", here, there)


def test_notes_are_about_the_runs_of_the_table(ablation: list[Path], tmp_path: Path) -> None:
    """A run of another method on other questions is in no row of Table 3."""
    other = write_run(tmp_path / "other", agent_run("AA"), method="lvagent", agents=["a", "b"])
    (own, beside), _ = build(read_runs(list(map(str, (*ablation, other)))), ("vca-3", "vca-2"))
    assert own.notes == ()
    assert "did not answer the same questions" in beside.notes[0]


def test_settings_that_come_to_the_same_share_a_row(tmp_path: Path) -> None:
    """The options that docs/methods name for VCA's Table 10 and for VideoAgent's uniform baselines."""
    unset = write_run(tmp_path / "unset", agent_run("AAAB"), method="vca", buffer=None)
    sixteen = write_run(tmp_path / "sixteen", agent_run("AABB"), method="vca", buffer=16)
    (table,) = section("vca-10", unset, sixteen).tables
    assert sum(str(row[1]).startswith("VCA, ours: ") for row in table.rows) == 2
    uniform = {"first_frames": 7, "max_rounds": 1, "self_evaluation": False}
    first = write_run(tmp_path / "uniform", agent_run("AAAB"), method="videoagent", **uniform)
    whole = write_run(tmp_path / "whole", agent_run("AAAA"), method="videoagent")
    (table,) = section("videoagent-4", first, whole).tables
    assert cells(table, "7 uniform frames")["accuracy, %"].startswith("75.0 (")
    assert cells(table, "7 uniform frames")["frames, published"] == "7"


def test_vcas_open_model_has_the_papers_buffer(tmp_path: Path) -> None:
    """Table 5 has 16 frames on EgoSchema, where the default is 8."""
    sixteen = write_run(tmp_path / "a", agent_run("AAAB"), method="vca", buffer=16)
    image = write_run(tmp_path / "b", agent_run("AABB"), method="vca", buffer=16, reward="image")
    unset = write_run(tmp_path / "c", agent_run("AAAA"), method="vca", reward="image")
    (table,) = section("vca-5", sixteen, image, unset).tables
    assert cells(table, "VCA")["accuracy, %"].startswith("75.0 (")
    assert cells(table, "reward by image similarity")["accuracy, %"].startswith("50.0 (")
    with pytest.raises(MissingRuns, match=r"--options buffer=16 reward=image"):
        section("vca-5", sixteen, unset)


def test_transcripts_are_those_that_questions_had(tmp_path: Path) -> None:
    """DVD's Table 2: a run that asked for subtitles and found none is one without transcripts."""
    found_none = agent_run("AAAB", notes=("no subtitles",))
    deaf = write_run(tmp_path / "deaf", found_none, method="dvd", subtitles="listed", segmentation="uniform")
    guided = write_run(
        tmp_path / "guided", agent_run("AABB"), method="dvd", subtitles="listed", segmentation="transcript"
    )
    heard = write_run(
        tmp_path / "heard", agent_run("ABBB"), method="dvd", subtitles="listed", segmentation="uniform"
    )
    (table,) = section("dvd-2", deaf, guided, heard).tables
    found = [
        cells(table, label)["accuracy, %"].partition(" ")[0]
        for label in ("Deep Video Discovery", "with transcripts", "with transcripts, uniform clips")
    ]
    assert found == ["75.0", "50.0", "25.0"]
    (table,) = section("dvd-3", deaf, guided).tables
    assert cells(table, "Deep Video Discovery")["accuracy, %"].startswith("75.0 (")
    # Transcribed, though no listed subtitles were asked for.
    only_heard = write_run(
        tmp_path / "only_heard", agent_run("AABB"), method="dvd", subtitles="none", segmentation="transcript",
        speech="whisper:openai/whisper-large-v3-turbo",
    )  # fmt: skip
    (table,) = section("dvd-2", deaf, only_heard).tables
    assert cells(table, "with transcripts")["accuracy, %"].startswith("50.0 (")
    with pytest.raises(MissingRuns, match=r"dvd-3: .*--options subtitles=none"):
        section("dvd-3", guided)


def test_atp_hard_is_a_half_of_nextqas_table(tmp_path: Path) -> None:
    """Two causal questions of the subset, one right; one temporal, right; and one that is not in it."""
    kinds = [("CW", "A"), ("CH", "B"), ("TN", "A")]
    traces = [
        agent_trace(number, letter, [reply()], groups={"type": kind, "atp_hard": kind})
        for number, (kind, letter) in enumerate(kinds)
    ]
    traces.append(agent_trace(3, "B", [reply()], groups={"type": "DO"}))
    path = write_run(tmp_path / "v", traces, method="videoagent", benchmark="nextqa", split="val")
    own = cells(section("videoagent-3", path).tables[0], "VideoAgent")
    assert own["ATP-hard C"].startswith("50.0 (")
    assert own["ATP-hard T"].startswith("100.0 (")
    assert own["ATP-hard all"].startswith("66.7 (")
    assert own["ATP-hard all, published"] == "58.4"


def test_a_missing_run_is_named_with_its_command(ablation: list[Path]) -> None:
    with pytest.raises(MissingRuns, match=r"vca-3: make runs .*--method vca --options reward=none"):
        section("vca-3", ablation[0])
    # The default buffer is the paper's there, so it is not asked for.
    with pytest.raises(MissingRuns, match=r"vca-6: .*--method vca --options reward=evidence \.\.\."):
        section("vca-6", *ablation)
    with pytest.raises(MissingRuns, match=r"dvd-5: .*--options tools=\[clip_search,frame_inspect\] \.\.\."):
        section("dvd-5", *ablation)
    with pytest.raises(MissingRuns, match=r"videoagent-6: .*--options llm=LLM"):
        section("videoagent-6", *ablation)
    for name in ("lvagent-times", "lvagent-agents", "dvd-fig3", "vca-fig5", "videoagent-fig3"):
        with pytest.raises(MissingRuns, match=f"{name}: "):
            section(name, ablation[-1])


def test_a_familys_name_makes_what_the_runs_allow(ablation: list[Path]) -> None:
    runs = read_runs(list(map(str, ablation)))
    made, lacking = build(runs, ("vca",))
    numbers = [section.name.removeprefix("vca-") for section in made]
    assert numbers == ["1", "2", "3", "4", "9", "10", "11"]
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


def test_no_accuracy_of_a_behaviour_is_made_up(tmp_path: Path) -> None:
    """Two of three requests for an action brought no call, so the forced letter says nothing about DVD."""
    steps = [reply("act"), Step("clip_search"), unparsed(kind="act"), unparsed(kind="act")]
    path = write_run(tmp_path / "d", [agent_trace(0, "A", steps)], method="dvd")
    made = section("dvd-fig3", path)
    assert (
        cell_text(made.tables[0].rows[0][-1]) == "needs a language model: 2 of 3 replies could not be parsed"
    )


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
    assert cell_text(given.rows[0][6]) == "33.6"
    (times, said_there) = section("lvagent-times", path, native).tables
    # As the supplement prints them.
    assert [cell_text(cell) for cell in said_there.rows[0][1:]] == ["350.5", "90.5"]
    assert [cell_text(cell) for cell in said_there.rows[1][1:2]] == ["3"]
    assert [cell_text(cell) for cell in said_there.rows[4][1:]] == ["139.71", "36.07"]
    found = {str(row[1]): row[2:] for row in times.rows}
    # A quarter of a second besides two steps of half a second: 3.75 s for the videos 0 and 1.
    assert cell_text(found["LVAgent: evaluation"][2]) == "1.88"
    assert cell_text(found["LVAgent: in all, at least"][2]) == "3.38"
    assert "Native VideoLLM alone" in found
