"""Lines of other libraries: those that say nothing to a user are hidden by name, all others are shown."""

import logging
import subprocess
import sys
import warnings

import pytest

from tests.support import ROOT
from videopro import startup
from videopro.pocket import model_dir


def test_loading_and_asking_the_pocket_model_prints_nothing_and_asks_no_hub() -> None:
    program = f"""
import videopro.startup
from peft.utils import save_and_load
from videopro.backbones import Sampling, load_backbone
save_and_load.check_file_exists_on_hf_hub = None  # a call raises
backbone = load_backbone("pocket", adapter="pocket-sft")
backbone.generate(None, "Who?", Sampling(4))
assert backbone.name == {str(model_dir())!r}
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_other_messages_of_the_same_loggers_and_categories_are_shown(
    caplog: pytest.LogCaptureFixture,
) -> None:
    kernels = logging.getLogger("bitsandbytes.backends.cpu.ops")
    kernels.warning("Failed to load CPU gemm_4bit_forward from kernels-community: none")
    kernels.warning("something new")
    assert [record.getMessage() for record in caplog.records] == ["something new"]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        startup._hide_messages()
        warnings.warn("`is_gradient_checkpointing` is deprecated and will", FutureWarning, stacklevel=1)
        for message in (
            "Could not find a config file in pocket - will assume that the vocabulary was not modified.",
            "Unable to fetch remote file due to the following error [Errno -2]\n(none) - silently ignoring "
            "the lookup for the file config.json in pocket.",
            "You are using 'rollout_func', which is an experimental feature. This API may",
            "Found missing adapter keys while loading the checkpoint: ['a'].",
        ):
            warnings.warn(message, UserWarning, stacklevel=1)
        assert caught == []
        for message in (
            "`another_name` is deprecated",
            "Unable to fetch remote file due to the following error x - silently ignoring",
            "You are using 'another', which is an experimental feature.",
        ):
            warnings.warn(message, FutureWarning, stacklevel=1)
    assert len(caught) == 3
