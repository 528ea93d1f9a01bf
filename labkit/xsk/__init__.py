"""AF_XDP: packets of a receive queue straight into a program's own memory, and out of it again.

    program = lab.load(lk.compile(path="bpf/to_socket.c"))
    program.attach(server["eth0"])
    with lk.xsk.XskSocket(server["eth0"], queue=0) as xsk:
        program.maps["sockets"][0] = xsk
        for frame in xsk.receive():
            print(frame)

Four rings connect the kernel and the program, each with one who puts in and one who takes out: *fill* (empty frames for the
kernel), *receive* (frames with packets), *transmit* (frames to send), *completion* (frames that were sent).
"""

from labkit.kernel.xdp_socket import XskStatistics
from labkit.xsk.frames import Batch, ReceivedFrame
from labkit.xsk.ring import Ring
from labkit.xsk.socket import XskSocket
from labkit.xsk.umem import Umem

__all__ = ["Batch", "ReceivedFrame", "Ring", "Umem", "XskSocket", "XskStatistics"]
