"""Lessons: predict, run, compare, explain, change, check."""

from labkit.lesson import drop
from labkit.lesson.codes import return_codes
from labkit.lesson.live import live_rates
from labkit.lesson.page import Table
from labkit.lesson.pictures import Picture, bars, draw, receive_path
from labkit.lesson.places import where_to_drop
from labkit.lesson.practice import CheckResult, Exercise, check, exercise, exercises, hint, stub
from labkit.lesson.prediction import Comparison, Prediction, compare, predict
from labkit.lesson.progress import Progress, ProgressWarning, forget, progress
from labkit.lesson.race import Race, race, runs_scaled, scaled
from labkit.lesson.source import Listing, source

__all__ = [
    "CheckResult",
    "Comparison",
    "Exercise",
    "Listing",
    "Picture",
    "Prediction",
    "Progress",
    "ProgressWarning",
    "Race",
    "Table",
    "bars",
    "check",
    "compare",
    "draw",
    "drop",
    "exercise",
    "exercises",
    "forget",
    "hint",
    "live_rates",
    "predict",
    "progress",
    "race",
    "receive_path",
    "return_codes",
    "runs_scaled",
    "scaled",
    "source",
    "stub",
    "where_to_drop",
]
