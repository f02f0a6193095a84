"""Ordinary and hostile programs, with which the sandbox is measured and tested, and what surrounds them."""
