"""The official code's scores of the replies, for each case of `official_scores.py`.

The code is read from copies of its repositories at named commits, run in a scratch folder, and not kept.

Where a script draws a random option for a reply that it cannot read, the draw is wrong here. Else only paths
are changed, and the call of the model, which gives the fixed replies, and what a case says.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.benchmarks.official_scorers.official import choices, contributed, judged
from tests.benchmarks.official_scorers.official.script import Script
from tests.benchmarks.official_scorers.ours import Scores


@dataclass(frozen=True)
class Official:
    """The official code of a case."""

    score: Callable[[Path, Path], Scores]
    """Takes the folder of repositories, and a scratch folder."""
    scripts: tuple[Script, ...]


OFFICIAL: Mapping[str, Official] = {
    "videomme": Official(choices.videomme, (choices.VIDEOMME,)),
    "longvideobench": Official(choices.longvideobench, (choices.LONGVIDEOBENCH,)),
    "lvbench": Official(choices.lvbench, (choices.LVBENCH, choices.LVBENCH_SCORES)),
    "mlvu": Official(choices.mlvu, (choices.MLVU,)),
    "cg_bench": Official(judged.cg_bench, (judged.CG_BENCH, judged.CG_BENCH_SCORES, judged.CG_BENCH_GROUPS)),
    "nextqa": Official(contributed.nextqa, (contributed.NEXTQA, contributed.NEXTQA_SCORES)),
    "egoschema": Official(choices.egoschema, (choices.EGOSCHEMA,)),
    "egoschema_exact": Official(choices.egoschema_exact, (choices.EGOSCHEMA_EXACT,)),
    "mmbench_video": Official(
        judged.mmbench_video, (judged.MMBENCH_VIDEO, judged.MMBENCH_VIDEO_GRADES, judged.MISC)
    ),
    "videomme_v2": Official(contributed.videomme_v2, (contributed.VIDEOMME_V2_SCORES,)),
    "videomme_v2_authors": Official(contributed.videomme_v2_authors, (contributed.VIDEOMME_V2,)),
    "mvbench": Official(contributed.mvbench, (contributed.MVBENCH,)),
    **{
        f"tempcompass_{task}": Official(
            partial(contributed.tempcompass, task), (script, contributed.TEMPCOMPASS_SCORES)
        )
        for task, script in contributed.TEMPCOMPASS.items()
    },
    "intentqa": Official(contributed.intentqa, (contributed.NEXTQA, contributed.INTENTQA_SCORES)),
    "nextqa_atp_hard": Official(contributed.nextqa_atp_hard, (contributed.NEXTQA, contributed.NEXTQA_SCORES)),
    "charades_sta": Official(contributed.charades_sta, (contributed.CHARADES_STA,)),
}
