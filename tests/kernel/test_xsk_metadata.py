"""Metadata read in user space: by who it is in the frame right before the packet, and says itself what it is."""

from __future__ import annotations

import pytest

import labkit as lk
from labkit import hints
from labkit.xsk import Umem, XskSocket

N = 61  # prime
DEADLINE_S = 20.0

SOURCE = """\
#include "common/meta.h"
#include "common/verdict.h"

LAB_XSKMAP(sockets, 4);
LAB_ARRAY(sequence, u32, 1);

/* Every third packet gets none. */
int numbered(struct xdp_md *ctx)
{
	u32 zero = 0, *number = sequence.lookup(&zero);
	struct meta_latency *meta;

	if (!number)
		return verdict(ctx, XDP_ABORTED);
	if ((*number)++ % 3 < 2) {
		meta = meta_compose(ctx, META_LATENCY, sizeof(*meta));
		if (!meta)
			return verdict(ctx, XDP_ABORTED);
		meta->sequence = *number;
		meta->generic.queue = ctx->rx_queue_index;
	}
	return verdict(ctx, sockets.redirect_map(ctx->rx_queue_index, 0));
}
"""


@pytest.mark.parametrize("mode", ["native", "generic"])
def test_read_in_user_space(lab: lk.Lab, mode: lk.Mode) -> None:
    """Of seven frames of memory each is used often, and shows the metadata of its own packet only."""
    spec = lk.compile(text=SOURCE)
    program = lab.load(spec)
    with (
        hints.Formats.load(spec) as formats,
        XskSocket(lab["server"]["eth0"], umem=Umem(7), transmit_ring=0) as xsk,
    ):
        formats.tell(program)
        program.attach(lab["server"]["eth0"], mode=mode)
        program.maps["sockets"][0] = xsk
        read = []
        while len(read) < N:
            some = min(7, N - len(read))
            assert lk.send_frames(lab["client"]["eth0"], lk.udp(lab["client"], lab["server"]), some).sent == some
            read += [hints.read(frame, formats) for frame in xsk.receive(some, DEADLINE_S)]
    assert len(read) == N
    for number, found in enumerate(read, 1):
        if number % 3:
            assert isinstance(found, hints.Decoded), found
            assert (found.format.name, found.fields["sequence"], found.generic.queue) == ("meta_latency", number, 0)
        else:
            assert isinstance(found, hints.Foreign), found
            assert found.reason.startswith("no magic"), found
