"""The exercises of lesson 08, AF_XDP: each a function in Python, tried with real packets."""

from labkit.lesson.xsk_receiver import FILL_THE_FILL_RING
from labkit.lesson.xsk_responder import ANSWER_REQUESTS
from labkit.lesson.xsk_sender import STALLED_TRANSMITTER

__all__ = ["ANSWER_REQUESTS", "FILL_THE_FILL_RING", "STALLED_TRANSMITTER"]
