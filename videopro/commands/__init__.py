"""The commands of `videopro`. They make runs and read them; nothing imports them but the doors beside this
folder (`videopro/infer.py` and the like) and `videopro.__main__`."""
