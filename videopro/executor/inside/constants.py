"""Constants shared by both sides of the sandbox."""

ENTRY = "execute_command"
"""The function of a program to call."""
FILE = "<program>"
"""The file name in a program's tracebacks."""
GRACE = 0.3
"""Seconds of processor time between the exception for the time limit and the end of the process."""
