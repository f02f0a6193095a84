"""Copies what the site is built from into a folder: python launch/docs.py FOLDER.

Pages are written to be read in a repository browser, so they also link to files outside `docs/`. On the site
the top-level pages become pages of it, and a link to any other file becomes its text. The page of commands
gets what their --help prints.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import sys
from contextlib import redirect_stdout, suppress
from pathlib import Path

from videopro.__main__ import main as videopro
from videopro.cli import COMMANDS

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
TOP_LEVEL = {ROOT / f"{name.upper()}.md": f"{name}.md" for name in ("contributing", "changelog", "security")}
FILES = (".png", ".svg", ".css")
_LINK = re.compile(r"(?<!!)\[(?P<text>[^\]]*)\]\((?P<target>[^)\s#]+)(?P<anchor>#[^)\s]*)?\)")


def with_links(text: str, source: Path, page: Path) -> str:
    """A page's text with its links, which are relative to `source`, as links from `page` on the site."""

    def link(match: re.Match[str]) -> str:
        if "://" in match["target"]:
            return match[0]
        target = (source.parent / match["target"]).resolve()
        if target in TOP_LEVEL:
            on_site = Path(TOP_LEVEL[target])
        elif target.suffix in (".md", *FILES) and target.is_relative_to(DOCS):
            on_site = target.relative_to(DOCS)
        else:
            return match["text"]
        return f"[{match['text']}]({os.path.relpath(on_site, page.parent)}{match['anchor'] or ''})"

    return _LINK.sub(link, text)


def helps() -> str:
    """What --help prints for each command, as a part of a page."""
    # Read by rich: as wide as a page of the site, and no colors.
    os.environ |= {"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}
    parts = ["\n## Every setting\n"]
    for name in COMMANDS:
        printed = io.StringIO()
        with redirect_stdout(printed), suppress(SystemExit):
            videopro([*name.split(), "--help"])
        if not printed.getvalue():
            raise RuntimeError(f"videopro {name} --help printed nothing")
        parts.append(f"### videopro {name}\n\n```text\n{printed.getvalue().strip()}\n```\n")
    return "\n".join(parts)


def main(folder: Path) -> None:
    """Write the configuration and the pages into `folder`, and replace what an earlier call wrote there.
    Raises SystemExit for a folder that holds anything else."""
    marker = folder / ".written-by-docs.py"
    if folder.exists() and not marker.exists() and any(folder.iterdir()):
        raise SystemExit(f"error: {folder} contains other files; delete it, or pass another folder")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    marker.touch()
    targets = {path: path.relative_to(DOCS) for path in sorted(DOCS.rglob("*")) if path.is_file()}
    targets |= {path: Path(name) for path, name in TOP_LEVEL.items() if path.exists()}
    for source, target in targets.items():
        copy = folder / "docs" / target
        copy.parent.mkdir(parents=True, exist_ok=True)
        if source.suffix == ".md":
            text = source.read_text(encoding="utf-8")
            copy.write_text(with_links(text, source, target), encoding="utf-8")
        elif source.suffix in FILES:
            shutil.copyfile(source, copy)
    with (folder / "docs" / "reference" / "commands.md").open("a", encoding="utf-8") as page:
        page.write(helps())
    shutil.copyfile(ROOT / "mkdocs.yml", folder / "mkdocs.yml")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
