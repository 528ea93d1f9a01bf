"""Sandboxes: the lab without root, in a user namespace whose gate holds a BPF token (Linux 6.9 or later).

The privileged part is one file, env/sandbox. What is here runs as the user, asks that file for a sandbox over a socket,
and stays with it until its command ends. env/SANDBOX.md tells who may do what.
"""

from labkit.sandbox.start import Sandbox, start

__all__ = ["Sandbox", "start"]
