"""Lesson 06, where buffers go home: experiments with the pages of page pools, a map of them, two exercises."""

from labkit.lesson.buffers.at_work import CHOICES, PagesAtWork
from labkit.lesson.buffers.counted import Counted
from labkit.lesson.buffers.credit import FEW_OUT
from labkit.lesson.buffers.fill import fill_ring_runs_dry
from labkit.lesson.buffers.homecoming import SEND_HOME
from labkit.lesson.buffers.kept import COPIED, KEPT, kept_or_copied
from labkit.lesson.buffers.moment import PageMoment, PagesOf
from labkit.lesson.buffers.parked import ENDS, parked_pages
from labkit.lesson.buffers.picture import page_map, page_picture, page_way
from labkit.lesson.buffers.queues import pages_in_a_queue
from labkit.lesson.buffers.recycling import batches_and_pages, handful_of_pages
from labkit.lesson.buffers.return_ways import OWNERS, out_and_back

__all__ = [
    "CHOICES",
    "COPIED",
    "ENDS",
    "FEW_OUT",
    "KEPT",
    "OWNERS",
    "SEND_HOME",
    "Counted",
    "PageMoment",
    "PagesAtWork",
    "PagesOf",
    "batches_and_pages",
    "fill_ring_runs_dry",
    "handful_of_pages",
    "kept_or_copied",
    "out_and_back",
    "page_map",
    "page_picture",
    "page_way",
    "pages_in_a_queue",
    "parked_pages",
]
