"""The video modules that programs call."""

# The folder lies at the top of the checkout and is linked as videopro.modules: import it by that name only.
if __name__ != "videopro.modules":
    raise ImportError(f"{__name__!r} is not importable: import 'videopro.modules'")
