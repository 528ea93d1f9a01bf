"""Where the browser's messages are handled: beside the cell that runs, and not after it."""

from __future__ import annotations

from typing import Any

__all__ = ["answer_beside_cells"]


def answer_beside_cells(widget: Any) -> None:
    """Let the messages of ``widget`` be handled while a cell runs, where the kernel can do that.

    JupyterLab asks for it by naming a subshell (a thread of the kernel) in each message. From ipykernel 7.4 on, a comm
    overrules it and picks the thread that spoke last. A thread of our own counts as the main one there, so that every
    answer would wait for the end of the cell.
    """
    comm = widget.comm
    if hasattr(comm, "_reply_subshell_for"):
        comm._reply_subshell_for = lambda _data, wanted: wanted
