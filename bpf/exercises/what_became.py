# SPDX-License-Identifier: BSD-3-Clause
def what_became(changed):
    """Tell from counters what became of redirected frames.

    This believes the interface that sends: what it doesn't report as dropped has arrived.
    """
    sending = changed["router eth1"]
    return {
        "received": changed["router eth0"]["rx_packets"],
        "refused": 0,
        "ring full": sending["tx_dropped"],
        "arrived": changed["router eth0"]["rx_packets"] - sending["tx_dropped"],
    }
