"""`videopro index`: embed the clips of videos, on this machine or on a Ray cluster."""
