"""Lessons: predict, run, compare, explain, change, check."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from labkit.lesson import (
    buffers,
    cpumap,
    drop,
    fast_path,
    generic_hints_field,
    generic_hints_hash,
    metadata,
    metadata_room,
    redirect,
    ring_model,
    router,
    skip_bpf,
    xsk,
)
from labkit.lesson.buffers import (
    PagesAtWork,
    batches_and_pages,
    fill_ring_runs_dry,
    handful_of_pages,
    kept_or_copied,
    out_and_back,
    page_map,
    page_way,
    pages_in_a_queue,
    parked_pages,
)
from labkit.lesson.codes import return_codes
from labkit.lesson.cpumap_gro import merged_by_gro
from labkit.lesson.cpumap_order import arrival_order
from labkit.lesson.cpumap_picture import cpumap_path
from labkit.lesson.cpumap_work import Division, queue_lengths, ran_on, who_works
from labkit.lesson.fast_path_cost import RedirectCost, redirect_cost, saved_in_2020_ns
from labkit.lesson.fast_path_effect import effect_on_lessons
from labkit.lesson.fast_path_steps import calls_in_the_kernel, two_steps
from labkit.lesson.frame_map import FrameMap, frame_map
from labkit.lesson.generic_hints import believed_checksums, composed_from, swapped_formats
from labkit.lesson.generic_hints_foreign import foreign_cases
from labkit.lesson.generic_hints_path import Consumed, GenericPath
from labkit.lesson.generic_hints_picture import captured_formats, standard_formats
from labkit.lesson.generic_hints_readers import read_by_socket, read_on_another_cpu, what_the_driver_gives
from labkit.lesson.generic_hints_spread import Spreading, spread_alike
from labkit.lesson.hints_cost import Composer
from labkit.lesson.hints_cost_crossover import Crossover, crossover
from labkit.lesson.hints_cost_table import MetadataTable, metadata_table
from labkit.lesson.hints_cost_threshold import threshold_at_work, threshold_under_traffic
from labkit.lesson.hints_cost_xdp import cost_of_composing, hash_or_parse
from labkit.lesson.hints_driver import hash_answers, if_hints
from labkit.lesson.hints_driver_hash import hash_by_sender, promised_hints
from labkit.lesson.hints_driver_picture import driver_knows, hints_by_origin
from labkit.lesson.hints_driver_refused import hints_refused
from labkit.lesson.hints_driver_stamp import stamp_seen_by
from labkit.lesson.hints_driver_words import timestamp_words
from labkit.lesson.live import live_rates
from labkit.lesson.metadata_adjust import adjust_answers, adjust_limits
from labkit.lesson.metadata_gro import metadata_and_gro
from labkit.lesson.metadata_ways import Delivery, who_reads_metadata
from labkit.lesson.metadata_wire import unread_metadata
from labkit.lesson.overrun import Overrun, overrun, two_to_one
from labkit.lesson.page import Table
from labkit.lesson.pictures import Picture, bars, draw, receive_path
from labkit.lesson.places import where_to_drop
from labkit.lesson.practice import CheckResult, Exercise, check, exercise, exercises, hint, stub
from labkit.lesson.prediction import Comparison, Prediction, compare, predict
from labkit.lesson.progress import Progress, ProgressWarning, forget, progress
from labkit.lesson.race import Race, race, runs_scaled, scaled
from labkit.lesson.receiving import mac_value, who_can_receive
from labkit.lesson.redirect_costs import cost_of_a_loss, observing_costs, redirect_race
from labkit.lesson.redirect_pictures import draw_star, redirect_path
from labkit.lesson.skip_bpf import dispatcher_slots, published_table, skip_cost, skip_flag, skip_modes
from labkit.lesson.source import Listing, source
from labkit.lesson.star import star
from labkit.lesson.tracing import if_traced
from labkit.lesson.turns import Paired
from labkit.lesson.workshop import staying_on, usable_cpus
from labkit.lesson.xsk_at_work import AtWork
from labkit.lesson.xsk_film import rings_film
from labkit.lesson.xsk_losses import xsk_losses
from labkit.lesson.xsk_rates import XskRates, xsk_rates
from labkit.lesson.xsk_refusals import xsk_refusals
from labkit.lesson.xsk_rings import rings

if TYPE_CHECKING:
    from labkit.lesson.analysis_picture import flow_picture, verdict_table

__all__ = [
    "AtWork",
    "CheckResult",
    "Comparison",
    "Composer",
    "Consumed",
    "Crossover",
    "Delivery",
    "Division",
    "Exercise",
    "FrameMap",
    "GenericPath",
    "Listing",
    "MetadataTable",
    "Overrun",
    "PagesAtWork",
    "Paired",
    "Picture",
    "Prediction",
    "Progress",
    "ProgressWarning",
    "Race",
    "RedirectCost",
    "Spreading",
    "Table",
    "XskRates",
    "adjust_answers",
    "adjust_limits",
    "arrival_order",
    "bars",
    "batches_and_pages",
    "believed_checksums",
    "buffers",
    "calls_in_the_kernel",
    "captured_formats",
    "check",
    "compare",
    "composed_from",
    "cost_of_a_loss",
    "cost_of_composing",
    "cpumap",
    "cpumap_path",
    "crossover",
    "dispatcher_slots",
    "draw",
    "draw_star",
    "driver_knows",
    "drop",
    "effect_on_lessons",
    "exercise",
    "exercises",
    "fast_path",
    "fill_ring_runs_dry",
    "flow_picture",
    "foreign_cases",
    "forget",
    "frame_map",
    "generic_hints_field",
    "generic_hints_hash",
    "handful_of_pages",
    "hash_answers",
    "hash_by_sender",
    "hash_or_parse",
    "hint",
    "hints_by_origin",
    "hints_refused",
    "if_hints",
    "if_traced",
    "kept_or_copied",
    "live_rates",
    "mac_value",
    "merged_by_gro",
    "metadata",
    "metadata_and_gro",
    "metadata_room",
    "metadata_table",
    "observing_costs",
    "out_and_back",
    "overrun",
    "page_map",
    "page_way",
    "pages_in_a_queue",
    "parked_pages",
    "predict",
    "progress",
    "promised_hints",
    "published_table",
    "queue_lengths",
    "race",
    "ran_on",
    "read_by_socket",
    "read_on_another_cpu",
    "receive_path",
    "redirect",
    "redirect_cost",
    "redirect_path",
    "redirect_race",
    "return_codes",
    "ring_model",
    "rings",
    "rings_film",
    "router",
    "runs_scaled",
    "saved_in_2020_ns",
    "scaled",
    "skip_bpf",
    "skip_cost",
    "skip_flag",
    "skip_modes",
    "source",
    "spread_alike",
    "stamp_seen_by",
    "standard_formats",
    "star",
    "staying_on",
    "stub",
    "swapped_formats",
    "threshold_at_work",
    "threshold_under_traffic",
    "timestamp_words",
    "two_steps",
    "two_to_one",
    "unread_metadata",
    "usable_cpus",
    "verdict_table",
    "what_the_driver_gives",
    "where_to_drop",
    "who_can_receive",
    "who_reads_metadata",
    "who_works",
    "xsk",
    "xsk_losses",
    "xsk_rates",
    "xsk_refusals",
]


def __getattr__(name: str) -> Any:
    """The pictures of bytecode, imported when first asked for: no other lesson needs networkx, which takes a while."""
    if name in ("flow_picture", "verdict_table"):
        return getattr(importlib.import_module("labkit.lesson.analysis_picture"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
