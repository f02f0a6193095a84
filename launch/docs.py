"""Copies what the site is built from into a folder, with its links made right there: python launch/docs.py FOLDER.

Pages are written to be read in a repository browser, so they also link to files outside `docs/`. On the site the
top-level pages become pages of it, and a link to any other file becomes its text.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
TOP_LEVEL = {ROOT / f"{name.upper()}.md": f"{name}.md" for name in ("contributing", "changelog", "security")}
PICTURES = (".png", ".svg")
_LINK = re.compile(r"(?<!!)\[(?P<text>[^\]\n]*)\]\((?P<target>[^)\s#]+)(?P<anchor>#[^)\s]*)?\)")


def with_links(text: str, source: Path, place: Path) -> str:
    """A page's text with its links, which are relative to `source`, as links from `place` on the site."""

    def link(found: re.Match[str]) -> str:
        if "://" in found["target"]:
            return found[0]
        target = (source.parent / found["target"]).resolve()
        if target in TOP_LEVEL:
            on_site = Path(TOP_LEVEL[target])
        elif target.suffix in (".md", *PICTURES) and target.is_relative_to(DOCS):
            on_site = target.relative_to(DOCS)
        else:
            return found["text"]
        return f"[{found['text']}]({os.path.relpath(on_site, place.parent)}{found['anchor'] or ''})"

    return _LINK.sub(link, text)


def main(folder: Path) -> None:
    """Write the configuration and the pages into `folder`, which is replaced."""
    shutil.rmtree(folder, ignore_errors=True)
    places = {path: path.relative_to(DOCS) for path in sorted(DOCS.rglob("*")) if path.is_file()}
    places |= {path: Path(name) for path, name in TOP_LEVEL.items() if path.exists()}
    for source, place in places.items():
        copy = folder / "docs" / place
        copy.parent.mkdir(parents=True, exist_ok=True)
        if source.suffix == ".md":
            text = source.read_text(encoding="utf-8")
            copy.write_text(with_links(text, source, place), encoding="utf-8")
        elif source.suffix in PICTURES:
            shutil.copyfile(source, copy)
    shutil.copyfile(ROOT / "mkdocs.yml", folder / "mkdocs.yml")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
