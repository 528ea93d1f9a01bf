"""Runs inside a sandbox, as its student: tries what must be refused, and prints one JSON object of outcomes.

hostile.py FACTS [NAME…]     FACTS is a JSON object of what the attacker knows of the machine
"""

from __future__ import annotations

import json
import sys

import hostile_bpf  # noqa: F401
import hostile_files  # noqa: F401
import hostile_network  # noqa: F401
import hostile_processes  # noqa: F401
from attempts import ATTEMPTS, CONTROLLED, outcomes

__all__ = ["ATTEMPTS", "CONTROLLED"]

if __name__ == "__main__":
    print(json.dumps(outcomes(sys.argv[2:] or list(ATTEMPTS), json.loads(sys.argv[1]))))
