"""scapy, loaded on first use and without a look at the machine's routes.

scapy's import takes some tenths of a second, reads the routing tables of the namespace it happens to run in, and keeps
them for ever; in a lab they would be the wrong ones. Frames of the lab name every address themselves and need none.
"""

from __future__ import annotations

import functools
import logging
import sys
from types import SimpleNamespace

__all__ = ["scapy"]


@functools.cache
def scapy() -> SimpleNamespace:
    """The parts of scapy that frames are made of: Ether, ARP, IP, IPv6, ICMP, UDP, TCP, Raw, fragment.

    Where this is scapy's first import its routing table stays empty: ``conf.route.resync()`` fills it for other uses.
    """
    from scapy.config import conf

    first = "scapy.layers.inet" not in sys.modules
    loggers = [logging.getLogger(name) for name in ("scapy.loading", "scapy.runtime")]
    before = (conf.route_autoload, conf.route6_autoload, [logger.level for logger in loggers])
    if first:
        conf.route_autoload = conf.route6_autoload = False
        for logger in loggers:
            logger.setLevel(logging.ERROR)
    try:
        from scapy.layers.inet import ICMP, IP, TCP, UDP, fragment
        from scapy.layers.inet6 import IPv6
        from scapy.layers.l2 import ARP, Ether
        from scapy.packet import Raw
    finally:
        conf.route_autoload, conf.route6_autoload, levels = before
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
    return SimpleNamespace(
        ARP=ARP, Ether=Ether, ICMP=ICMP, IP=IP, IPv6=IPv6, Raw=Raw, TCP=TCP, UDP=UDP, fragment=fragment
    )
