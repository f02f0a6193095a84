"""`videopro transcribe`: write down what is said in videos, for every method to read."""
