"""A machine that readers may not own, measured once with measure.py, to set their own beside it."""

from __future__ import annotations

from efflab.chapters.roofline.measure import MeasuredMachine

H200: MeasuredMachine | None = None
