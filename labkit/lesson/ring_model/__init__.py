"""Lesson 07, rings and who fills them again: a real burst, then a model of two cards held against figures of 2017."""

from labkit.lesson.ring_model.burst import BURSTS, bursts_into_a_queue
from labkit.lesson.ring_model.counters import WHO_COUNTS_IT
from labkit.lesson.ring_model.find_tuning import FIND_THE_TUNING
from labkit.lesson.ring_model.published import against_the_thread, times_of_the_model, what_it_rests_on
from labkit.lesson.ring_model.return_scheme import A_WAY_HOME
from labkit.lesson.ring_model.rules import model_rules
from labkit.lesson.ring_model.schemes import FATES, LOAD, Marked, five_schemes, memory_over_time, remedies
from labkit.lesson.ring_model.score import WORKLOADS, Score, Scores, Workload, score_of, scores
from labkit.lesson.ring_model.strict import StrictHalfPages
from labkit.lesson.ring_model.tuning import RELATIONS, TUNINGS, entries_and_interval, rings_over_time, tunings

__all__ = [
    "A_WAY_HOME",
    "BURSTS",
    "FATES",
    "FIND_THE_TUNING",
    "LOAD",
    "RELATIONS",
    "TUNINGS",
    "WHO_COUNTS_IT",
    "WORKLOADS",
    "Marked",
    "Score",
    "Scores",
    "StrictHalfPages",
    "Workload",
    "against_the_thread",
    "bursts_into_a_queue",
    "entries_and_interval",
    "five_schemes",
    "memory_over_time",
    "model_rules",
    "remedies",
    "rings_over_time",
    "score_of",
    "scores",
    "times_of_the_model",
    "tunings",
    "what_it_rests_on",
]
