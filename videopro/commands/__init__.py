"""The commands of `videopro`. They make runs and read them; nothing imports them except the modules next to
this folder (`videopro/infer.py` and the like) and `videopro.__main__`."""
