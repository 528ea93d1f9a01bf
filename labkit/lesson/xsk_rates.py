"""How fast a program gets packets and sends them: AF_XDP and AF_PACKET, in turn in one run."""

from __future__ import annotations

from dataclasses import dataclass

from labkit.bench.result import BenchResult
from labkit.bench.xsk import run
from labkit.lesson.pictures import Picture, bars
from labkit.lesson.race import scaled

__all__ = ["XskRates", "xsk_rates"]

_FRAMES = 2048  # 4 MiB: within a user's limit
_RUNS = 1


@dataclass(frozen=True)
class XskRates:
    """Rates in Mpps; ``receiving`` and ``sending``: how many times as many packets as a packet socket's."""

    measured: BenchResult

    @property
    def mpps(self) -> dict[str, float]:
        """Each way's rate."""
        also = self.measured.also
        return {
            "receive, AF_XDP": self.measured.value,
            "receive, packet socket": self.measured.baseline["af_packet"],
            "forward, AF_XDP": also["forward"],
            "forward, packet socket": also["forward_af_packet"],
            "send, AF_XDP": also["send"],
            "send, packet socket": also["send_af_packet"],
        }

    @property
    def receiving(self) -> float:
        """AF_XDP's packets for each of a packet socket."""
        return self.measured.ratio["af_packet"]

    @property
    def sending(self) -> float:
        """The same when sending."""
        return self.measured.also["send"] / self.measured.also["send_af_packet"]

    @property
    def _picture(self) -> Picture:
        return bars(self.mpps, "Mpps", "Packets to a program and from it, in turn, with the same frames")

    def _repr_html_(self) -> str:
        return self._picture._repr_html_()

    def __str__(self) -> str:
        return str(self._picture)

    __repr__ = __str__


def xsk_rates(packets: int | None = None) -> XskRates:
    """The rates of ``packets`` frames of 64 bytes (200,003) each way, everything on this machine's CPUs; lab "bench-xsk"."""
    return XskRates(run(_RUNS, lambda _: None, packets=packets or scaled(200_003), frames=_FRAMES))
