"""What both sides of the wall agree on. Knows nothing else."""

ENTRY = "execute_command"
"""The function of a program that is called."""
FILE = "<program>"
"""The file name in a program's tracebacks."""
GRACE = 0.3
"""Seconds of processor time from the exception that says that time is up to the end."""
