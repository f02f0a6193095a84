"""Users without a home folder: containers that run with any user id."""

import os
import pwd
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.support import ROOT
from videopro import startup
from videopro.startup import private_temporary_folder, provide_folders


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user id without an entry."""

    def lacking(number: int) -> None:
        raise KeyError(f"getpwuid(): uid not found: {number}")

    monkeypatch.setattr(pwd, "getpwuid", lacking)


@pytest.mark.parametrize("home", [None, "", "/nonexistent/home"])
def test_a_user_without_home_gets_one(nobody: None, temporary: Path, home: str | None) -> None:
    environment = {} if home is None else {"HOME": home}
    told = provide_folders(environment)
    folder = temporary / f"videopro-{os.getuid()}"
    assert environment == {"USER": f"uid{os.getuid()}", "HOME": str(folder)}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    for text in (f"HOME is {home or 'not set'}", str(folder), "VIDEOPRO_CACHE", "HF_HOME"):
        assert text in told
    assert "\n" not in told
    # A worker process, or the next command, finds the same.
    assert provide_folders(environment) == ""


def test_caches_with_names_of_their_own_stay(nobody: None, temporary: Path) -> None:
    given = {"VIDEOPRO_CACHE": "/data/cache", "HF_HOME": "/data/hub", "LOGNAME": "me"}
    environment = dict(given)
    assert provide_folders(environment) == ""
    assert {**environment, **given} == environment
    assert "USER" not in environment


def test_a_home_that_can_only_be_read_is_read(
    monkeypatch: pytest.MonkeyPatch, temporary: Path, tmp_path: Path
) -> None:
    """Models that an image brings in its home are used; what we write goes elsewhere."""
    home = tmp_path / "home"
    (home / ".cache" / "huggingface").mkdir(parents=True)
    (home / ".cache" / "videopro").mkdir()

    def access(path: Path, mode: int) -> bool:  # root may write everywhere
        return not (mode & os.W_OK and home in (Path(path), *Path(path).parents))

    monkeypatch.setattr(startup.os, "access", access)
    environment = {"HOME": str(home), "USER": "me"}
    told = provide_folders(environment)
    own = str(temporary / f"videopro-{os.getuid()}")
    assert environment["HOME"] == str(home)
    assert "HF_HOME" not in environment
    assert environment["VIDEOPRO_CACHE"] == f"{own}/.cache/videopro"
    assert environment["EASYOCR_MODULE_PATH"] == f"{own}/.EasyOCR"
    assert f"the caches in {home} are not writable" in told
    assert "HF_HOME" not in told


def test_a_folder_that_others_prepared_is_not_used(temporary: Path, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (temporary / f"videopro-{os.getuid()}").symlink_to(theirs)
    folder = private_temporary_folder()
    assert folder.parent == temporary
    assert not folder.is_symlink()
    assert not any(theirs.iterdir())


_AS_NOBODY = (
    *("setpriv", "--reuid", "54321", "--regid", "54321", "--clear-groups"),
    *("--inh-caps", "+dac_read_search", "--ambient-caps", "+dac_read_search"),
)


@pytest.mark.skipif(os.getuid() != 0 or shutil.which("setpriv") is None, reason="needs root and setpriv")
def test_a_process_of_such_a_user_finds_its_folders() -> None:
    program = (
        "import getpass; from pathlib import Path; from videopro.cli import cache_root; "
        "import huggingface_hub.constants as hub; print(getpass.getuser(), Path.home(), cache_root(), "
        "hub.HF_HOME, sep='\\n')"
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o777)
        # Through a door: a program that only uses the package is left alone.
        (folder / "av.py").write_text(f"{program}; raise SystemExit")
        environment = {"PATH": os.environ["PATH"], "TMPDIR": name, "PYTHONPATH": f"{name}:{ROOT}"}
        done = subprocess.run(
            [*_AS_NOBODY, sys.executable, "-m", "videopro", "infer"],
            env=environment,
            cwd=folder,
            capture_output=True,
            text=True,
        )
    own = folder / "videopro-54321"
    expected = ["uid54321", str(own), f"{own}/.cache/videopro", f"{own}/.cache/huggingface"]
    assert done.stdout.splitlines() == expected, done.stderr
    assert done.stderr.startswith("no home folder (HOME is not set); caches go to")
