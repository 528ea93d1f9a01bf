"""Probes: each tries one thing on the running kernel, takes it back, and says what it saw.

A probe returns a short text for people and raises OSError, with the kernel's errno, where the thing is not to be had.
No probe compares versions, none needs a package beyond Python's own, none leaves anything behind. They are not cached:
``labkit.kernel.features`` does that, and is what the rest of the lab asks.
"""
