"""What a run of the model gave: told in the same way as what was counted, and never without saying what it is."""

from __future__ import annotations

from dataclasses import replace

from labkit.lesson.buffers.counted import Counted
from labkit.lesson.prediction import Comparison
from labkit.lesson.tracing import Unseen

__all__ = ["Modelled"]

_NOTE = "“Measured” is the model's figure here: nothing of this was measured."


class Modelled(Counted):
    """``answers`` are the model's."""

    def compare(self, id: str) -> Comparison | Unseen:
        """The prediction ``id`` beside the model's figure. Raises LessonError."""
        found = super().compare(id)
        return replace(found, note=_NOTE) if isinstance(found, Comparison) else found
