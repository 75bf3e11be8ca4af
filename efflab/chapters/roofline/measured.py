"""A machine that readers may not own, measured once (29 November 2026) by `python -m efflab.chapters.roofline.measure`.

torch 2.11.0+cu130, bfloat16 products of 8192 × 8192, copies of up to 1 GiB. It is set beside the reader's own.
"""

from __future__ import annotations

from efflab.chapters.roofline.measure import MeasuredMachine

H200 = MeasuredMachine(
    name="NVIDIA H200", peaks={"float32": 50975e9, "bfloat16": 780237e9}, bandwidth=4099e9, launch_us=13.7,
    caches=(("L2", 62914560),),
    curve=((2**20, 721e9), (2**21, 1326e9), (2**22, 2237e9), (2**23, 3379e9), (2**24, 4550e9), (2**25, 5134e9),
           (2**26, 3465e9), (2**27, 3520e9), (2**28, 3622e9), (2**29, 3937e9), (2**30, 4099e9)))

# figures.opening() on the same machine: rows times an (8192, 28672) weight in float16, FLOP/s.
H200_OPENING = {2048: 763e12, 1: 3.43e12}
