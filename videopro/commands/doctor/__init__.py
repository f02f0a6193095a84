"""`videopro doctor`: what a run would use on this machine, and what is missing or broken."""

from videopro.commands.doctor.findings import Finding as Finding
from videopro.commands.doctor.findings import State as State
