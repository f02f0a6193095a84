"""The calibration of a method and a model (`videopro calibrate` writes it): below which confidence an answer
is withheld, so that the share of wrong ones among the others is at most a risk.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from pydantic import TypeAdapter, ValidationError

from videopro.backbones import Backbone
from videopro.errors import ConfigError, RunError
from videopro.methods import PreparedRun
from videopro.question import NO_OPTION
from videopro.runs.folder import RunFolder, identity_difference, identity_unloaded
from videopro.storage import first_mistake, read_object
from videopro.traces import Result, Trace, shown_confidence, withhold
from videopro.traces.scoring import RiskPoint, official_records_of, risk_curve, widest


@dataclass(frozen=True)
class Calibration:
    """The risk of a method's answers by their confidence, on the questions of runs."""

    method: Mapping[str, Any]
    """As in the run's key; likewise `model`."""
    model: Mapping[str, Any]
    runs: Mapping[str, str]
    """The key of each run, by its folder."""
    questions: tuple[str, ...]
    """The ids of the scored questions."""
    unanswerable: int
    """Questions without a right option."""
    videos: int
    curve: tuple[RiskPoint, ...]

    @classmethod
    def of(cls, paths: Sequence[Path]) -> Self:
        """From finished runs of one method and model. Raises RunError."""
        runs: dict[str, str] = {}
        traces: list[Trace] = []
        first: dict[str, Any] = {}
        for path in paths:
            folder = RunFolder(path)
            recorded = folder.recorded_identity()
            if recorded is None or not folder.summary.exists():
                raise RunError(f"{path}: contains no finished run; finish it with `videopro infer` first")
            identity = {name: recorded[name] for name in ("method", "model")}
            first = first or identity
            if differences := identity_difference(first, identity, (f"{paths[0]} has", "this run")):
                raise RunError(
                    f"{path}: is of another method or model ({differences[0]}); calibrate each by itself"
                )
            runs[str(path)] = folder.key() or ""
            traces += folder.read()
        records = official_records_of(traces)
        ids = dict.fromkeys(record.question_id for record in records)
        if not ids:
            raise RunError(f"{paths[0]}: has no scored question; use a run whose right answers are known")
        if len(ids) < len(records):
            raise RunError("two runs have the same question; pass each question once")
        if any(shown_confidence(each, is_open=False) is None and each.error is None for each in traces):
            raise RunError(
                f"{paths[0]}: method {first['method']['name']} gives answers without a confidence, so they "
                "cannot be calibrated"
            )
        return cls(
            **first,
            runs=runs,
            questions=tuple(ids),
            unanswerable=sum(trace.gold == NO_OPTION for trace in traces if trace.question_id in ids),
            videos=len({record.video for record in records}),
            curve=risk_curve(records),
        )

    def to_json(self) -> str:
        """The file's content."""
        return json.dumps(_CALIBRATION.dump_python(self, mode="json"), indent=1) + "\n"


_CALIBRATION = TypeAdapter(Calibration)


@dataclass(frozen=True)
class Abstention:
    """A threshold of confidence, and what it was calibrated for; the default withholds no answer."""

    risk: float = 1.0
    file: Path = Path()
    threshold: float = 0.0
    calibration: Calibration | None = None

    @classmethod
    def of(cls, setting: str, prepared: PreparedRun, load: Callable[..., Backbone] | None) -> Self:
        """From RISK@FILE, or empty for none. Compares the method, and the model unless `load` is None; loads
        nothing. `load` as in `RunRequest`. Raises ConfigError for a setting that is wrong, a file of another
        method or model, and a risk that no threshold keeps to."""
        if not setting:
            return cls()
        number, _, name = setting.partition("@")
        try:
            risk = float(number)
        except ValueError:
            risk = 0.0
        if not name or not 0 < risk < 1:
            raise ConfigError(
                f"abstain is {setting!r}; pass RISK@FILE, with a risk between 0 and 1: 0.1@calibration.json"
            )
        try:
            calibration = _CALIBRATION.validate_python(
                read_object(Path(name).read_bytes(), name, ConfigError)
            )
        except OSError as error:
            raise ConfigError(
                f"abstain: {name} cannot be read ({error.strerror}); make it with `videopro calibrate RUN`"
            ) from error
        except ValidationError as error:
            raise ConfigError(
                f"abstain: {name} is not a file of `videopro calibrate` ({first_mistake(error)})"
            ) from error
        point = widest(calibration.curve, risk)
        abstention = cls(risk, Path(name), point.threshold if point else 1.0, calibration)
        abstention.check(prepared)
        if load is not None:
            now = identity_unloaded(prepared.model, prepared.backbone, calibration.model, load)
            abstention.check_model(now)
        if point is None:
            least = min((each.bound for each in calibration.curve), default=1.0)
            raise ConfigError(
                f"abstain: no confidence in {name} keeps the risk at {risk:g}; allow {least:.3f}, or "
                "calibrate with more questions"
            )
        return abstention

    def check(self, prepared: PreparedRun, *, is_open: bool = False) -> None:
        """Raise ConfigError for another method or other settings, and for a question in words."""
        if self.calibration is not None:
            if is_open:
                raise ConfigError("abstain: only answers with a letter are calibrated; pass choices")
            self._compare("method", self.calibration.method, prepared.identity)

    def check_model(self, identity: Mapping[str, Any]) -> None:
        """Raise ConfigError if this is another model."""
        if self.calibration is not None:
            self._compare("model", self.calibration.model, identity)

    def _compare(self, part: str, calibrated: Mapping[str, Any], now: Mapping[str, Any]) -> None:
        # Through JSON, as the file is: tuples become lists.
        current = json.loads(json.dumps(now))
        names = ("the file has", "this command")
        if differences := identity_difference({part: calibrated}, {part: current}, names):
            more = f" and {len(differences) - 1} more" if len(differences) > 1 else ""
            raise ConfigError(
                f"abstain: {self.file} is of another {part} ({differences[0]}{more}); calibrate with a run "
                "of these settings"
            )

    def measured(self, traces: Sequence[Trace]) -> dict[str, Any]:
        """What becomes of a run's answers, for its summary; empty without a calibration. `n` counts the
        questions whose answer is known, those without a right option too."""
        if self.calibration is None:
            return {}
        records = official_records_of(traces)
        right = [record.correct for record in records if record.confidence >= self.threshold]
        counts = {"n": len(records), "answered": len(right), "errors": right.count(False)}
        about = {"risk": self.risk, "file": str(self.file), "threshold": self.threshold}
        return {"abstention": {**about, **counts}}

    def applied(self, result: Result) -> Result:
        """The result, with a note if its answer is withheld; see `withhold`."""
        return withhold(result, self.threshold, f"risk {self.risk:g}, {self.file.name}")
