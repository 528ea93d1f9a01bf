"""Lessons: predict, run, compare, explain, change, check."""

from labkit.lesson import cpumap, drop, redirect, router
from labkit.lesson.codes import return_codes
from labkit.lesson.cpumap_gro import merged_by_gro
from labkit.lesson.cpumap_order import arrival_order
from labkit.lesson.cpumap_picture import cpumap_path
from labkit.lesson.cpumap_work import Division, queue_lengths, ran_on, who_works
from labkit.lesson.live import live_rates
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
from labkit.lesson.source import Listing, source
from labkit.lesson.star import star
from labkit.lesson.tracing import if_traced
from labkit.lesson.turns import Paired
from labkit.lesson.workshop import staying_on, usable_cpus

__all__ = [
    "CheckResult",
    "Comparison",
    "Division",
    "Exercise",
    "Listing",
    "Overrun",
    "Paired",
    "Picture",
    "Prediction",
    "Progress",
    "ProgressWarning",
    "Race",
    "Table",
    "arrival_order",
    "bars",
    "check",
    "compare",
    "cost_of_a_loss",
    "cpumap",
    "cpumap_path",
    "draw",
    "draw_star",
    "drop",
    "exercise",
    "exercises",
    "forget",
    "hint",
    "if_traced",
    "live_rates",
    "mac_value",
    "merged_by_gro",
    "observing_costs",
    "overrun",
    "predict",
    "progress",
    "queue_lengths",
    "race",
    "ran_on",
    "receive_path",
    "redirect",
    "redirect_path",
    "redirect_race",
    "return_codes",
    "router",
    "runs_scaled",
    "scaled",
    "source",
    "star",
    "staying_on",
    "stub",
    "two_to_one",
    "usable_cpus",
    "where_to_drop",
    "who_can_receive",
    "who_works",
]
