# SPDX-License-Identifier: BSD-3-Clause
def receive_turn(xsk):
    """Take what has come, give its frames back to the fill ring, and return how many packets that was."""
    batch = xsk.take(64)
    xsk.recycle(batch)
    return len(batch)
