"""The tree of segments and the memory buffer of frames, by hand."""

from __future__ import annotations

from videopro.methods.vca import MemoryBuffer, Tree, borders


def test_frames_split_a_segment_and_its_parts_are_named_after_it() -> None:
    tree = Tree(70.0, shortest=1.0)
    parts = tree.split(None, [10.0, 20.0])
    assert [(part.number, part.name, part.start, part.end) for part in parts] == [
        (0, "0", 0.0, 10.0),
        (1, "1", 10.0, 20.0),
        (2, "2", 20.0, 70.0),
    ]
    assert borders(parts) == [10.0, 20.0]
    inner = tree.split(parts[2], [40.0])
    innermost = tree.split(inner[1], [50.0])
    assert [(part.number, part.name) for part in (*inner, *innermost)] == [
        (3, "2.0"),
        (4, "2.1"),
        (5, "2.1.0"),
        (6, "2.1.1"),
    ]
    assert innermost[0].record.parent == "2.1"
    assert parts[0].record.parent == ""
    assert tree.nodes[6] is innermost[1]


def test_a_segment_is_split_evenly() -> None:
    tree = Tree(70.0, shortest=1.0)
    parts = tree.split(None, tree.even_borders(None, 6))
    assert [(part.start, part.end) for part in parts] == [(10.0 * i, 10.0 * i + 10) for i in range(7)]
    assert tree.even_borders(parts[3], 4) == [32.0, 34.0, 36.0, 38.0]


def test_open_segments_are_candidates_in_order_of_time_unless_they_are_short() -> None:
    tree = Tree(30.0, shortest=5.0)
    _, middle, _ = tree.split(None, tree.even_borders(None, 2))
    tree.split(middle, [14.0])
    assert [node.name for node in tree.candidates] == ["0", "1.1", "2"]


def test_a_frame_is_as_relevant_as_the_better_open_segment_beside_it() -> None:
    tree = Tree(30.0, shortest=1.0)
    parts = tree.split(None, tree.even_borders(None, 2))
    assert tree.relevance_at(10.0) == -1.0
    for part, score in zip(parts, (30.0, 60.0, 40.0), strict=True):
        part.score = score
    assert (tree.relevance_at(10.0), tree.relevance_at(20.0)) == (60.0, 60.0)
    inner = tree.split(parts[1], tree.even_borders(parts[1], 1))
    # Until they have scores of their own, the parts count as what was split.
    assert (tree.relevance_at(10.0), tree.relevance_at(15.0), tree.relevance_at(20.0)) == (60.0, 60.0, 60.0)
    inner[0].score, inner[1].score = 0.0, 5.0
    # The finer scores replace the coarse 60.
    assert (tree.relevance_at(10.0), tree.relevance_at(15.0), tree.relevance_at(20.0)) == (30.0, 5.0, 40.0)


def test_the_least_relevant_frames_leave() -> None:
    buffer = MemoryBuffer(3)
    relevance = {1.0: 50.0, 2.0: 10.0, 3.0: 90.0, 4.0: 20.0, 5.0: 70.0}
    assert buffer.update([1.0, 2.0, 3.0, 4.0, 5.0], relevance.__getitem__) == [2.0, 4.0]
    assert buffer.times == [1.0, 3.0, 5.0]
    # What was relevant may become irrelevant.
    assert buffer.update([6.0], {**relevance, 3.0: 5.0, 6.0: 6.0}.__getitem__) == [3.0]
    assert buffer.update([6.0], {**relevance, 6.0: 6.0}.__getitem__) == []


def test_of_equal_frames_that_which_was_added_first_leaves() -> None:
    buffer = MemoryBuffer(4)
    assert buffer.update([20.0, 30.0, 40.0], lambda time: 0.0) == []
    assert buffer.update([1.0, 2.0, 3.0], lambda time: 0.0) == [20.0, 30.0]
    assert buffer.update([50.0], lambda time: 0.0) == [40.0]
    assert buffer.times == [1.0, 2.0, 3.0, 50.0]


def test_a_frame_without_a_score_leaves_before_one_that_scored_nothing() -> None:
    buffer = MemoryBuffer(1)
    assert buffer.update([1.0, 2.0], lambda time: 0.0 if time == 1.0 else -1.0) == [2.0]
