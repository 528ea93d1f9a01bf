# SPDX-License-Identifier: BSD-3-Clause
def what_became(changed):
    """Tell from counters what became of redirected frames."""
    came, sending = changed["router eth0"], changed["router eth1"]
    return {
        "received": came["rx_queue_0_xdp_packets"],
        "refused": came["rx_queue_0_drops"],
        "ring full": sending["tx_queue_0_xdp_xmit_errors"],
        "arrived": changed["server eth0"].get("rx_queue_0_xdp_packets", 0),
    }
