# SPDX-License-Identifier: BSD-3-Clause
from labkit.models.pages import Pages


class ReturnScheme(Pages):
    """Buffers of two drivers: stock are at rest, away have left. Nothing comes home yet."""

    def came_home(self, packets):
        """So many were sent, and their buffers are here."""

    def _free_of_charge(self, wanted, under_way):
        """How many of the wanted buffers need no new page."""
        return 0

    def _left(self, kept, fresh):
        """So many of those left, and so many on new pages."""
        self.away += fresh
