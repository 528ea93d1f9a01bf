"""What this machine has of what the lab needs, and the one thing that mends each gap."""

from labkit.doctor.examine import doctor
from labkit.doctor.report import Report, Row

__all__ = ["Report", "Row", "doctor"]
