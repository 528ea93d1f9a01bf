# SPDX-License-Identifier: BSD-3-Clause
from labkit.models.pages import Pages


class ReturnScheme(Pages):
    """The second driver calls the first: what was sent is in stock again."""

    def came_home(self, packets):
        """So many were sent, and their buffers are here."""
        self.away -= packets
        self.stock += packets

    def _free_of_charge(self, wanted, under_way):
        """How many of the wanted buffers need no new page."""
        return self.stock

    def _left(self, kept, fresh):
        """So many of those left, and so many on new pages."""
        self.stock -= kept
        self.away += kept + fresh
