"""Observation: independent counters of the kernel, read together (Sample), and balanced (Ledger)."""
