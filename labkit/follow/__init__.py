"""Why was this frame dropped? It is replayed through a copy of the program, and each test on its way is told.

    print(lk.explain(program, frame))

The verdict is the kernel's; the way through the C text is followed beside it, and held against it.
"""

from __future__ import annotations

from labkit.follow.explaining import explain
from labkit.follow.replay import Replay
from labkit.follow.trace import Change, Mark, Step, Trace

__all__ = ["Change", "Mark", "Replay", "Step", "Trace", "explain"]
