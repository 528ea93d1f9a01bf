"""A lesson's heart, run once from the command line: real packets, and a ledger of all of them."""

from labkit.demo.registry import DEMOS, Demo, run_demo
from labkit.demo.result import DemoResult

__all__ = ["DEMOS", "Demo", "DemoResult", "run_demo"]
