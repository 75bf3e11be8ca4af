"""Wrong answers that people really give, by exercise. Each is refused by a case in cases.py."""

from __future__ import annotations

from efflab.chapters.online_softmax.wrong_kernels import FUSED_SOFTMAX
from efflab.chapters.online_softmax.wrong_merges import MERGE_OUTPUTS, MERGE_STATS
from efflab.chapters.online_softmax.wrong_softmax import ONLINE_SOFTMAX, SOFTMAX_3PASS
from efflab.chapters.online_softmax.wrong_stats import ONLINE_STATS

__all__ = ["FUSED_SOFTMAX", "MERGE_OUTPUTS", "MERGE_STATS", "ONLINE_SOFTMAX", "ONLINE_STATS", "SOFTMAX_3PASS"]
