# SPDX-License-Identifier: BSD-3-Clause
def transmit_turn(xsk, batch):
    """Called again and again with packets to send: return how many of them the ring had room for.

    Something is missing: the packets lie in the transmit ring, and nobody takes them.
    """
    return xsk.transmit(batch, wake=False)
