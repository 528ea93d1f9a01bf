# SPDX-License-Identifier: BSD-3-Clause
def find_tuning(work):
    """Return the tuning for a workload: entries of both rings, µs between two interrupts."""
    if work.line_pps < work.offered_pps:  # always full: short rings are a short wait
        return {"rx_ring": 64, "tx_ring": 256, "rx_usecs": 30}
    if work.offered_pps < 1e6:  # no hurry: few interrupts, little memory
        return {"rx_ring": 64, "tx_ring": 64, "rx_usecs": 60}
    if work.offered_pps < 12e6:  # the CPU has time to sleep: what comes meanwhile needs entries
        return {"rx_ring": 512, "tx_ring": 1024, "rx_usecs": 60}
    return {"rx_ring": 512, "tx_ring": 512, "rx_usecs": 40}
