# SPDX-License-Identifier: BSD-3-Clause
def transmit_turn(xsk, batch):
    """Put packets in, wake the kernel until it has taken all, and take back the frames that were sent."""
    queued = xsk.transmit(batch, wake=False)
    while xsk.transmit_waiting:
        xsk.kick()
        xsk.complete()
    xsk.complete()
    return queued
