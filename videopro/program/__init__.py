"""A generated program: parsed, with its mode, its canonical form and what is wrong with its form."""

from videopro.program.parsing import ENTRY, MAX_CHARS, Program, parse_program, planning_text

__all__ = ["ENTRY", "MAX_CHARS", "Program", "parse_program", "planning_text"]
