# SPDX-License-Identifier: BSD-3-Clause
def receive_turn(xsk):
    """Called again and again: take what has come, and return how many packets that was.

    Something is missing: after as many packets as the memory has frames, nothing comes any more.
    """
    batch = xsk.take(64)
    return len(batch)
