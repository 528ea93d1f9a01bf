# SPDX-License-Identifier: BSD-3-Clause
def answer_request(frame, mac, ip):
    """The answer to one frame, as bytes; None for a frame that asks nothing of us.

    frame: bytes from the Ethernet header on; mac, ip: our own, 6 and 4 bytes.
    """
    kind = frame[12:14]
    if kind == b"\x08\x06":  # ARP: who has this address?
        return None
    if kind == b"\x08\x00":  # IPv4: an echo request?
        return None
    return None
