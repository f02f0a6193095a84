"""What training takes from inside of TRL and PEFT: it was read, in these versions, before it was overridden.

A red test here means that a library has changed such a method. Read what has changed, adapt the override (its
comment says what it is for, and why no public extension point does it), and note the new digest.
"""

import hashlib
import inspect
from typing import Any

from peft.tuners.lora import LoraLayer

from videopro.train.finetune import VideoSFTTrainer
from videopro.train.rl import VideoGRPOTrainer

# By our class and the private method that it overrides: the digests of the method's source in the supported
# versions (TRL 1.15 and 1.16, transformers 5.18 to 5.24, PEFT 0.21); those with the same source have one.
OVERRIDDEN: dict[tuple[type, str], set[str]] = {
    (VideoGRPOTrainer, "_generate_and_score_completions"): {"1fa48922792d"},
    (VideoGRPOTrainer, "_get_per_token_logps_and_entropies"): {"ea73c3909275"},
    (VideoGRPOTrainer, "_get_train_sampler"): {"36497afb4d31"},
    (VideoGRPOTrainer, "_prepare_inputs"): {"f824e7fb0714"},
    (VideoSFTTrainer, "_get_train_sampler"): {"1580d7493244"},
    (LoraLayer, "_cast_input_dtype"): {"244f7bafd644"},
}


def digest(method: Any) -> str:
    return hashlib.sha256(inspect.getsource(inspect.unwrap(method)).encode()).hexdigest()[:12]


def overridden(kind: type) -> dict[str, Any]:
    """The private methods of libraries that our classes among its bases override, as they are there."""
    ours = [base for base in kind.__mro__ if base.__module__.startswith("videopro.")]
    theirs = [base for base in kind.__mro__ if base not in ours]
    names = {name for base in ours for name in vars(base) if name[0] == "_" and name[:2] != "__"}
    originals = {
        name: next((vars(base)[name] for base in theirs if name in vars(base)), None) for name in names
    }
    return {name: original for name, original in originals.items() if callable(original)}


def test_every_private_method_that_is_overridden_is_the_one_that_was_read() -> None:
    found = {
        (kind, name): digest(original)
        for kind in (VideoGRPOTrainer, VideoSFTTrainer)
        for name, original in overridden(kind).items()
    }
    found[LoraLayer, "_cast_input_dtype"] = digest(LoraLayer._cast_input_dtype)
    assert found.keys() == OVERRIDDEN.keys()
    assert {name: value for name, value in found.items() if value not in OVERRIDDEN[name]} == {}
