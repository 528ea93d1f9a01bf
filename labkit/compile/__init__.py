"""C text to a ProgramSpec, with BCC in a child process. Needs no privilege and leaves the kernel
alone.
"""

from labkit.compile.build import compile_source, prewarm
from labkit.compile.client import shut_down

__all__ = ["compile_source", "prewarm", "shut_down"]
