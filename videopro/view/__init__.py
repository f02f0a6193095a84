"""The trace viewer: a run as a folder of static pages that open from disk, and as a live table in a terminal.

    python -m videopro.view RUN [--output DIR]      # then open DIR/index.html
    python -m videopro.view --live RUN

Reads finished or running runs; must not know how one is carried out, and never writes into traces.
"""
