# Built from solutions/flash_attention.py by `efflab build`, with the answers cut out.
# Work on a copy:  ./run start flash_attention   puts one into work/flash_attention.py
# Check it:        ./run check work/flash_attention.py
"""Attention, five times over: from the definition to a kernel tuned for the GPU it runs on.

    s[i, j] = scale * q[i, :] . k[j, :]               causal: only j <= i + Nk - Nq, the rest is -inf
    lse[i]  = log(sum_j exp(s[i, j]))                 -inf where a row sees no key
    o[i, :] = sum_j exp(s[i, j] - lse[i]) * v[j, :]   0 where a row sees no key

B: batch.  Hq, Hkv: query and key/value heads; query head h reads key/value head h // (Hq // Hkv).
Nq, Nk: queries and keys.  D: head size.  q (B, Hq, Nq, D), k and v (B, Hkv, Nk, D), o like q,
lse (B, Hq, Nq) in float32, natural logarithm.  scale defaults to D**-0.5.
BLOCK_Q, BLOCK_K: rows of q and of k that one tile holds.  BLOCK_D: D rounded up to a power of two.
Traffic: q, o and lse once, k and v once for each tile of queries; s never leaves the chip.
"""

import math
import os
from dataclasses import dataclass

import torch
import triton
import triton.language as tl

HAS_GLUON = tuple(map(int, triton.__version__.split(".")[:2])) >= (3, 6)    # Triton's lower level, for Hopper
if HAS_GLUON:
    from triton.experimental import gluon
    from triton.experimental.gluon import language as gl
    from triton.experimental.gluon.language.nvidia.hopper import (
        fence_async_shared,
        mbarrier,
        tma,
        warpgroup_mma,
        warpgroup_mma_wait,
    )
    from triton.experimental.gluon.nvidia.hopper import TensorDescriptor as HopperDescriptor
else:
    gluon = triton                      # its kernels are still defined, and never chosen


def check_inputs(
    name: str, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, dtypes: tuple[torch.dtype, ...]
) -> None:
    """Refuse what does not fit together: what was expected, what came, what to do."""
    shapes = f"got q {tuple(q.shape)}, k {tuple(k.shape)}, v {tuple(v.shape)}"
    if not q.ndim == k.ndim == v.ndim == 4:
        raise ValueError(f"{name} takes q, k, v of four dimensions (B, H, N, D); {shapes}; "
                         "add the missing ones with unsqueeze")
    if k.shape != v.shape or q.shape[0] != k.shape[0] or q.shape[3] != k.shape[3]:
        raise ValueError(f"{name} takes q (B, Hq, Nq, D) and k, v (B, Hkv, Nk, D) with the same B and D; {shapes}; "
                         "is the layout (B, N, H, D)? then transpose(1, 2)")
    if k.shape[1] == 0 or q.shape[1] % k.shape[1] != 0:
        raise ValueError(f"{name} needs Hq to be a multiple of Hkv; {shapes}; "
                         "each key/value head serves Hq // Hkv query heads")
    if q.shape[3] == 0:
        raise ValueError(f"{name} needs a head size D of at least 1; {shapes}")
    if not q.dtype == k.dtype == v.dtype or q.dtype not in dtypes:
        wanted = ", ".join(str(dtype).removeprefix("torch.") for dtype in dtypes)
        raise ValueError(f"{name} takes one dtype for q, k, v out of {wanted}; "
                         f"got {q.dtype}, {k.dtype}, {v.dtype}; convert with .to(dtype)")
    if not q.device == k.device == v.device:
        raise ValueError(f"{name} takes q, k, v on one device; got {q.device}, {k.device}, {v.device}; "
                         "move them with .to(device)")


# --- 1. The definition ------------------------------------------------------------------------------------------------

ANY_FLOAT = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def naive_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False, scale: float | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attend with the whole score matrix in memory; return o (B, Hq, Nq, D) and lse (B, Hq, Nq)."""
    check_inputs("naive_attention", q, k, v, ANY_FLOAT)
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    raise NotImplementedError("naive_attention: your code goes here")


# --- 2. The same in tiles: nothing of size Nq x Nk --------------------------------------------------------------------

def tiled_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False, scale: float | None = None,
    block_q: int = 64, block_k: int = 64,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attend tile by tile with a running maximum and sum; return o (B, Hq, Nq, D) and lse (B, Hq, Nq)."""
    check_inputs("tiled_attention", q, k, v, ANY_FLOAT)
    if block_q < 1 or block_k < 1:
        raise ValueError(f"tiled_attention needs block_q and block_k of at least 1; got {block_q} and {block_k}")
    (B, Hq, Nq, D), Nk, Hkv = q.shape, k.shape[2], k.shape[1]
    scale = D**-0.5 if scale is None else scale
    o = torch.empty((B, Hq, Nq, D), dtype=q.dtype, device=q.device)
    lse = torch.empty((B, Hq, Nq), dtype=torch.float32, device=q.device)
    wide = torch.promote_types(q.dtype, torch.float32)          # to compute in: float32, or float64 for float64
    raise NotImplementedError("tiled_attention: your code goes here")


# --- 3. What it costs: elements that cross between the chip and its memory --------------------------------------------

def hbm_traffic(Nq: int, Nk: int, D: int, block_q: int, block_k: int, algorithm: str) -> int:
    """Elements read and written for one head, not causal, by algorithm "naive", "fa1" or "fa2"."""
    if algorithm not in ("naive", "fa1", "fa2"):
        raise ValueError(f'hbm_traffic knows the algorithms "naive", "fa1" and "fa2"; got {algorithm!r}')
    raise NotImplementedError("hbm_traffic: your code goes here")


# --- 4. The kernel ----------------------------------------------------------------------------------------------------

KERNEL_FLOAT = (torch.float16, torch.bfloat16, torch.float32)
MAX_D = 256


def check_kernel_inputs(name: str, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> None:
    """check_inputs, and what the Triton kernels cannot do."""
    check_inputs(name, q, k, v, KERNEL_FLOAT)
    if q.shape[3] > MAX_D:
        raise ValueError(f"{name} holds whole rows on the chip and takes D up to {MAX_D}; got {q.shape[3]}; "
                         "use tiled_attention")
    if q.dtype == torch.bfloat16 and interpreted():
        raise ValueError(f"{name}: Triton's interpreter computes bfloat16 wrongly; got bfloat16; "
                         "use float16 or float32 here, bfloat16 on a GPU")


def interpreted() -> bool:
    return os.environ.get("TRITON_INTERPRET") == "1"


def gpu_capability() -> tuple[int, int] | None:
    """(9, 0) for an H200, (7, 5) for a T4 ...; None where kernels run in Triton's interpreter."""
    return torch.cuda.get_device_capability() if torch.cuda.is_available() and not interpreted() else None


@triton.jit
def flash_attention_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr,                    # (B, Hq, Nq, D), 2 x (B, Hkv, Nk, D), like q, (B, Hq, Nq)
    q_stride_b, q_stride_h, q_stride_n, q_stride_d,
    k_stride_b, k_stride_h, k_stride_n, k_stride_d,
    v_stride_b, v_stride_h, v_stride_n, v_stride_d,
    Hq, Hkv, Nq, Nk, D, scale,
    CAUSAL: tl.constexpr, PRECISION: tl.constexpr,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_D: tl.constexpr,
):
    # Which piece: one tile of queries of one head. int64, or strides overflow past 2**31 elements.
    q_tiles = tl.cdiv(Nq, BLOCK_Q)
    tile = tl.program_id(0) % q_tiles
    b_h = (tl.program_id(0) // q_tiles).to(tl.int64)        # counts heads over the whole batch
    b, h = b_h // Hq, b_h % Hq
    h_kv = h // (Hq // Hkv)
    rows = tile * BLOCK_Q + tl.arange(0, BLOCK_Q)
    dims = tl.arange(0, BLOCK_D).to(tl.int64)
    pass  # your code goes here


def flash_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False, scale: float | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attend in one kernel, one program per tile of queries; return o (B, Hq, Nq, D) and lse (B, Hq, Nq)."""
    check_kernel_inputs("flash_attention", q, k, v)
    (B, Hq, Nq, D), Hkv, Nk = q.shape, k.shape[1], k.shape[2]
    scale = D**-0.5 if scale is None else scale
    BLOCK_D = max(16, triton.next_power_of_2(D))                    # tl.dot wants at least 16
    capability = gpu_capability()
    BLOCK_Q, BLOCK_K = 64, 64 if D <= 64 else 32
    if capability and (capability < (8, 0) or q.dtype == torch.float32):
        BLOCK_Q, BLOCK_K = 32, 16                                   # no tensor cores: wider tiles spill registers
    raise NotImplementedError("flash_attention: your code goes here")


# --- 5. The kernel, tuned ---------------------------------------------------------------------------------------------

@dataclass(frozen=True, kw_only=True)
class Tiles:
    """How flash_attention_fast cuts its work. warp_groups: 0, or on Hopper how many compute, 64 queries each."""
    BLOCK_Q: int
    BLOCK_K: int
    num_warps: int
    num_stages: int                     # tiles of k and v in flight
    warp_groups: int = 0
    take_turns: bool = False            # the warp groups start their matrix products one after the other


def tiles_for(capability: tuple[int, int] | None, D: int, dtype: torch.dtype, causal: bool) -> Tiles:
    """Choose tiles for a GPU's compute capability (None: Triton's interpreter), head size and dtype."""
    if capability is None:
        return Tiles(BLOCK_Q=64, BLOCK_K=64, num_warps=4, num_stages=1)         # few steps: each costs 10 ms
    if capability < (8, 0) or dtype == torch.float32:
        # No tensor cores for this dot: both factors pass through registers, and wider tiles spill.
        return Tiles(BLOCK_Q=32, BLOCK_K=16, num_warps=4 if D <= 128 else 8, num_stages=1)
    if D > 128:
        return Tiles(BLOCK_Q=64, BLOCK_K=32, num_warps=8, num_stages=2)
    if capability == (9, 0) and HAS_GLUON and D <= 64:
        # exp2 is the bottleneck: a third group keeps it busy (500 against 440 TFLOP/s on an H200), turns add 3 to 6%.
        return Tiles(BLOCK_Q=192, BLOCK_K=128, num_warps=4, num_stages=2, warp_groups=3, take_turns=True)
    if capability == (9, 0) and HAS_GLUON:
        # 224 of 227 KiB; a third group would lack registers. Turns pay with the causal mask: 573 against 518 TFLOP/s.
        return Tiles(BLOCK_Q=128, BLOCK_K=128, num_warps=4, num_stages=3, warp_groups=2, take_turns=causal)
    return Tiles(BLOCK_Q=128, BLOCK_K=64, num_warps=8, num_stages=3)            # 96 KiB at D = 128: fits sm_89


@triton.jit
def load_rows(
    head, start, N, stride_n, stride_d,
    D: tl.constexpr, ROWS: tl.constexpr, BLOCK_D: tl.constexpr, TAIL: tl.constexpr,
):
    """Rows start .. start + ROWS of one head (N, D), zero outside; without TAIL they all lie inside."""
    rows = tl.arange(0, ROWS)
    dims = tl.arange(0, BLOCK_D)
    within = rows.to(tl.int64)[:, None] * stride_n + dims.to(tl.int64)[None, :] * stride_d      # the same in each tile
    pointers = head + tl.cast(start, tl.int64) * stride_n + within
    if TAIL:
        tile = tl.load(pointers, mask=(start + rows < N)[:, None] & (dims < D)[None, :], other=0.0)
    elif D < BLOCK_D:
        tile = tl.load(pointers, mask=(dims < D)[None, :], other=0.0)
    else:
        tile = tl.load(pointers)                                        # nothing to test
    return tile                                                         # (ROWS, BLOCK_D)


@triton.jit
def attend(
    acc, m, l, q, k_head, v_head, k_first, k_end, last_seen, Nk, qk_scale,
    k_stride_n, k_stride_d, v_stride_n, v_stride_d,
    MASKED: tl.constexpr, PRECISION: tl.constexpr, D: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_D: tl.constexpr,
):
    """Fold keys k_first .. k_end into acc, m, l. Without MASKED every row sees all of them, in whole tiles.

    acc: (BLOCK_Q, BLOCK_D), m (in powers of two), l: (BLOCK_Q,), all float32. q: the tile, loaded. k_head, v_head:
    pointers to the head's first key and value. last_seen: (BLOCK_Q,), the last key that each row sees, below Nk.
    """
    pass  # your code goes here
    return acc, m, l


@triton.jit
def flash_attention_fast_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr,                    # (B, Hq, Nq, D), 2 x (B, Hkv, Nk, D), like q, (B, Hq, Nq)
    q_stride_b, q_stride_h, q_stride_n, q_stride_d,
    k_stride_b, k_stride_h, k_stride_n, k_stride_d,
    v_stride_b, v_stride_h, v_stride_n, v_stride_d,
    Hq, Hkv, Nq, Nk, qk_scale,                              # qk_scale: scale * log2(e)
    D: tl.constexpr, CAUSAL: tl.constexpr, PRECISION: tl.constexpr,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_D: tl.constexpr,
):
    # Which piece. Programs start in order: head after head, so that few heads' k and v share the L2 cache, and in a
    # head the last queries first. They see the most keys, and a GPU should end on short programs.
    q_tiles = tl.cdiv(Nq, BLOCK_Q)
    q_start = (q_tiles - 1 - tl.program_id(0) % q_tiles) * BLOCK_Q
    b_h = (tl.program_id(0) // q_tiles).to(tl.int64)
    b, h = b_h // Hq, b_h % Hq
    h_kv = h // (Hq // Hkv)
    rows = q_start + tl.arange(0, BLOCK_Q)
    dims = tl.arange(0, BLOCK_D)
    pass  # your code goes here


# On Hopper the tensor cores, exp2 and the copy engine can all work at once. Triton's loop lets them take turns:
# products, then softmax, then products. Gluon, the layer below Triton, lets us say who does what and when to wait.
# One warp, the producer, only orders copies. Two or three groups of four warps, the consumers, compute: 64 queries
# each. Each starts its next products before it needs them, and has its softmax done while another's products run.
#
#     tensor cores   0: q k1, p0 v0   1: q k1, p0 v0   0: q k2, p1 v1   1: q k2, p1 v1   ...
#     softmax        1: of tile 0     0: of tile 1     1: of tile 1     0: of tile 2     ...
#     copies         k2               v1               k3               v2               as stages fall empty
#
# A pipe is what lies between producer and consumers: STAGES tiles in shared memory, and for each two barriers, one
# that counts the bytes that have arrived, one that counts the consumers that are done with it.

@gluon.jit
def wait_for(pipe, i):
    """Tile i of a pipe, as soon as it has arrived in shared memory."""
    tiles, filled, _ = pipe
    STAGES: tl.constexpr = tiles.shape[0]
    mbarrier.wait(filled.index(i % STAGES), (i // STAGES) & 1)          # a barrier's phase flips with every round
    return tiles.index(i % STAGES).reshape((tiles.shape[3], tiles.shape[4]))


@gluon.jit
def release(pipe, i):
    """Tell the producer that this consumer has read tile i."""
    tiles, _, emptied = pipe
    STAGES: tl.constexpr = tiles.shape[0]
    mbarrier.arrive(emptied.index(i % STAGES), count=1)


@gluon.jit
def refill(pipe, i, source, b, h, start):
    """Once all consumers have released the tile before it, copy tile i: rows start .. of head (b, h)."""
    tiles, filled, emptied = pipe
    STAGES: tl.constexpr = tiles.shape[0]
    mbarrier.wait(emptied.index(i % STAGES), ((i // STAGES) & 1) ^ 1)   # the first round finds all stages empty
    mbarrier.expect(filled.index(i % STAGES), source.block_type.nbytes)
    tma.async_copy_global_to_shared(source, [b, h, start, 0], filled.index(i % STAGES), tiles.index(i % STAGES))


@gluon.jit
def make_pipe(source, STAGES: tl.constexpr, READERS: tl.constexpr):
    """STAGES tiles in shared memory, each with its barriers filled and emptied; READERS consumers release a tile."""
    ROWS: tl.constexpr = source.block_type.shape[2]
    BLOCK_D: tl.constexpr = source.block_type.shape[3]
    tiles = gl.allocate_shared_memory(source.dtype, [STAGES, 1, 1, ROWS, BLOCK_D], source.layout)
    filled = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    emptied = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    for stage in gl.static_range(STAGES):
        mbarrier.init(filled.index(stage), count=1)
        mbarrier.init(emptied.index(stage), count=READERS)
    return tiles, filled, emptied


@gluon.jit
def fold_scores(s, m, l, k_start, last_seen, qk_scale, MASKED: tl.constexpr):
    """The same arithmetic as in attend: p in float32, the factor for older sums, and the new m and l."""
    if MASKED:
        S_LAYOUT: tl.constexpr = s.type.layout
        cols = k_start + gl.arange(0, s.shape[1], layout=gl.SliceLayout(0, S_LAYOUT))
        s = gl.where(cols[None, :] <= last_seen[:, None], s, float("-inf"))
    m_new = gl.maximum(m, gl.max(s, axis=1) * qk_scale)
    m_safe = m_new
    if MASKED:
        m_safe = gl.where(m_new == float("-inf"), 0.0, m_new)
    p = gl.exp2(s * qk_scale - m_safe[:, None])
    alpha = gl.exp2(m - m_safe)
    l = l * alpha + gl.sum(p, axis=1)
    return p, alpha, m_new, l


@gluon.jit
def advance(
    i, acc, p, m, l, q, k_pipe, v_pipe, turns, turn, k_start, last_seen, qk_scale,
    GROUP: tl.constexpr, MASKED: tl.constexpr, TAKE_TURNS: tl.constexpr, BLOCK_K: tl.constexpr,
    S_LAYOUT: tl.constexpr, O_LAYOUT: tl.constexpr, P_DTYPE: tl.constexpr,
):
    """Start q k of tile i and p v of tile i - 1, and do the softmax of tile i while p v still runs."""
    GROUPS: tl.constexpr = turns.shape[0]
    p_factor = gl.convert_layout(p.to(q.dtype), gl.DotOperandLayout(0, O_LAYOUT, 2))        # (64, BLOCK_K), no move
    if TAKE_TURNS:                                      # group 0 begins: its first wait is for a flip that has been
        mbarrier.wait(turns.index(GROUP), (turn & 1) ^ (1 if GROUP == 0 else 0))
    k = wait_for(k_pipe, i)
    nothing = gl.zeros((64, BLOCK_K), gl.float32, S_LAYOUT)
    s = warpgroup_mma(q, k.permute((1, 0)), nothing, use_acc=False, is_async=True)          # (64, BLOCK_K)
    v = wait_for(v_pipe, i - 1)
    acc = warpgroup_mma(p_factor, v, acc, is_async=True)                                    # (64, BLOCK_D)
    if TAKE_TURNS:
        mbarrier.arrive(turns.index((GROUP + 1) % GROUPS), count=1)
    s = warpgroup_mma_wait(1, deps=[s])                 # all but the last: the scores are there, p v still runs
    p, alpha, m, l = fold_scores(s, m, l, k_start, last_seen, qk_scale, MASKED)
    acc = warpgroup_mma_wait(0, deps=[acc])
    release(k_pipe, i)                                  # both here: each release makes the group's warps meet
    release(v_pipe, i - 1)
    acc = acc * gl.convert_layout(alpha, gl.SliceLayout(1, O_LAYOUT))[:, None]
    return acc, p.to(P_DTYPE), m, l


@gluon.jit
def tiles_seen(last_row, Nq, Nk, CAUSAL: tl.constexpr, BLOCK_K: tl.constexpr):
    """Tiles of keys that rows up to last_row see; at least one, so that every program has one to begin with."""
    k_end = gl.to_tensor(Nk)
    if CAUSAL:
        k_end = gl.minimum(Nk, last_row + 1 + Nk - Nq)
    return gl.maximum(1, gl.cdiv(k_end, BLOCK_K))


@gluon.jit
def consume(
    GROUP: tl.constexpr, pipes, outputs, place, sizes, CAUSAL: tl.constexpr, TAKE_TURNS: tl.constexpr,
):
    """One warp group's queries, from the last tile of keys, which needs the mask, back to the first."""
    q_pipe, k_pipe, v_pipe, turns = pipes
    o_target, lse_head = outputs
    b, h, q_start, k_tiles = place
    Nq, Nk, qk_scale = sizes
    BLOCK_K: tl.constexpr = k_pipe[0].shape[3]
    BLOCK_D: tl.constexpr = k_pipe[0].shape[4]
    S_LAYOUT: tl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_K, 16])   # as wgmma leaves s,
    O_LAYOUT: tl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_D, 16])   # and acc
    first_row = q_start + GROUP * 64
    rows = first_row + gl.arange(0, 64, layout=gl.SliceLayout(1, S_LAYOUT))
    last_seen = gl.zeros_like(rows) + (Nk - 1)
    # Tiles 0 .. skipped are for the other groups' rows alone; tiles before unmasked hide some key from some row.
    skipped = k_tiles - tiles_seen(first_row + 63, Nq, Nk, CAUSAL, BLOCK_K)
    seen_by_all = gl.to_tensor(Nk)
    if CAUSAL:
        last_seen = gl.minimum(last_seen, rows + Nk - Nq)
        seen_by_all = gl.maximum(0, gl.minimum(Nk, q_start + 1 + Nk - Nq))
        for i in range(0, skipped):
            wait_for(k_pipe, i)
            release(k_pipe, i)
            wait_for(v_pipe, i)
            release(v_pipe, i)
    unmasked = gl.maximum(skipped + 1, k_tiles - seen_by_all // BLOCK_K)

    q = wait_for(q_pipe, GROUP)
    k = wait_for(k_pipe, skipped)
    nothing = gl.zeros((64, BLOCK_K), gl.float32, S_LAYOUT)
    s = warpgroup_mma(q, k.permute((1, 0)), nothing, use_acc=False, is_async=True)
    s = warpgroup_mma_wait(0, deps=[s])
    release(k_pipe, skipped)
    m = gl.full_like(rows, float("-inf"), dtype=gl.float32)
    l = gl.zeros_like(m)
    acc = gl.zeros((64, BLOCK_D), gl.float32, O_LAYOUT)
    p, _, m, l = fold_scores(s, m, l, (k_tiles - 1 - skipped) * BLOCK_K, last_seen, qk_scale, True)
    # Between rounds p waits in float32: halves, packed in pairs, would be reordered twice. Three groups lack the room.
    P_DTYPE: tl.constexpr = gl.float32 if turns.shape[0] == 2 else q.dtype
    p = p.to(P_DTYPE)
    for i in range(skipped + 1, unmasked):
        acc, p, m, l = advance(i, acc, p, m, l, q, k_pipe, v_pipe, turns, 0, (k_tiles - 1 - i) * BLOCK_K, last_seen,
                               qk_scale, GROUP, True, False, BLOCK_K, S_LAYOUT, O_LAYOUT, P_DTYPE)
    for i in range(unmasked, k_tiles):
        acc, p, m, l = advance(i, acc, p, m, l, q, k_pipe, v_pipe, turns, i - unmasked, 0, last_seen,
                               qk_scale, GROUP, False, TAKE_TURNS, BLOCK_K, S_LAYOUT, O_LAYOUT, P_DTYPE)
    v = wait_for(v_pipe, k_tiles - 1)
    p = gl.convert_layout(p.to(q.dtype), gl.DotOperandLayout(0, O_LAYOUT, 2))
    acc = warpgroup_mma(p, v, acc, is_async=True)
    acc = warpgroup_mma_wait(0, deps=[acc])

    l = gl.where(l == 0.0, 1.0, l)
    share = gl.convert_layout(1.0 / l, gl.SliceLayout(1, O_LAYOUT))
    q.store((acc * share[:, None]).to(q.dtype))                         # o leaves through q's place: q is done with
    fence_async_shared()                                                # or the copy engine may not see the store
    tma.async_copy_shared_to_global(o_target, [b, h, first_row, 0], q_pipe[0].index(GROUP))
    gl.store(lse_head + rows, m * 0.6931471805599453 + gl.log(l), mask=rows < Nq)
    tma.store_wait(0)


@gluon.jit
def produce(q_source, k_source, v_source, pipes, h_kv, place):
    """Order all copies: each group's queries, then tiles of keys and values from the last to the first."""
    q_pipe, k_pipe, v_pipe, turns = pipes
    b, h, q_start, k_tiles = place
    GROUPS: tl.constexpr = turns.shape[0]
    BLOCK_K: tl.constexpr = k_source.block_type.shape[2]
    for group in gl.static_range(GROUPS):
        refill(q_pipe, group, q_source, b, h, q_start + group * 64)
    for i in range(k_tiles):
        start = (k_tiles - 1 - i) * BLOCK_K
        refill(k_pipe, i, k_source, b, h_kv, start)
        refill(v_pipe, i, v_source, b, h_kv, start)


@gluon.jit
def flash_attention_hopper_kernel(
    q_source, k_source, v_source, o_target, lse_ptr,        # (B, H, N, D) as the copy engine sees them; (B, Hq, Nq)
    Hq, Hkv, Nq, Nk, qk_scale,
    CAUSAL: tl.constexpr, TAKE_TURNS: tl.constexpr, GROUPS: tl.constexpr, STAGES: tl.constexpr,
):
    # Which piece: as in flash_attention_fast_kernel.
    q_tiles = gl.cdiv(Nq, 64 * GROUPS)
    q_start = (q_tiles - 1 - gl.program_id(0) % q_tiles) * (64 * GROUPS)
    b_h = gl.program_id(0) // q_tiles
    b = b_h // Hq
    h = b_h % Hq
    h_kv = h // (Hq // Hkv)
    BLOCK_K: tl.constexpr = k_source.block_type.shape[2]
    k_tiles = tiles_seen(q_start + 64 * GROUPS - 1, Nq, Nk, CAUSAL, BLOCK_K)
    q_pipe = make_pipe(q_source, GROUPS, 1)                             # each group has a tile of queries to itself
    k_pipe = make_pipe(k_source, STAGES, GROUPS)
    v_pipe = make_pipe(v_source, STAGES, GROUPS)
    turns = gl.allocate_shared_memory(gl.int64, [GROUPS, 1], mbarrier.MBarrierLayout())
    for group in gl.static_range(GROUPS):
        mbarrier.init(turns.index(group), count=1)
    fence_async_shared()                                                # barriers are ready before the copies use them

    pipes = (q_pipe, k_pipe, v_pipe, turns)
    outputs = (o_target, lse_ptr + b_h.to(gl.int64) * Nq)
    place = (b, h, q_start, k_tiles)
    sizes = (Nq, Nk, qk_scale)
    # Registers a thread: the producer needs few, so that the consumers may have what it leaves of the 64 Ki.
    if GROUPS == 2:
        gl.warp_specialize([
            (consume, (0, pipes, outputs, place, sizes, CAUSAL, TAKE_TURNS)),
            (consume, (1, pipes, outputs, place, sizes, CAUSAL, TAKE_TURNS)),
            (produce, (q_source, k_source, v_source, pipes, h_kv, place)),
        ], [4, 1], [240, 24])                                           # the first one's warps and registers: the rest
    else:
        gl.warp_specialize([
            (consume, (0, pipes, outputs, place, sizes, CAUSAL, TAKE_TURNS)),
            (consume, (1, pipes, outputs, place, sizes, CAUSAL, TAKE_TURNS)),
            (consume, (2, pipes, outputs, place, sizes, CAUSAL, TAKE_TURNS)),
            (produce, (q_source, k_source, v_source, pipes, h_kv, place)),
        ], [4, 4, 1], [160, 160, 24])


def described(x: torch.Tensor, rows: int, BLOCK_D: int) -> "HopperDescriptor | None":
    """x (B, H, N, D) as the copy engine sees it, in boxes of rows x BLOCK_D; None where it cannot step through x."""
    whole = 16 // x.element_size()                                      # it steps in whole 16 bytes; 1 row: any step
    strides = [stride if size > 1 else whole for size, stride in zip(x.shape[:3], x.stride()[:3], strict=True)]
    if x.stride(3) != 1 or x.data_ptr() % 16 != 0 or any(stride == 0 or stride % whole != 0 for stride in strides):
        return None
    box = [1, 1, rows, BLOCK_D]
    layout = gl.NVMMASharedLayout.get_default_for(box, gl.float16 if x.dtype == torch.float16 else gl.bfloat16)
    return HopperDescriptor(x, list(x.shape), [*strides, 1], box, layout)


def launch_on_hopper(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, o: torch.Tensor, lse: torch.Tensor,
    causal: bool, qk_scale: float, tiles: Tiles,
) -> bool:
    """Fill o and lse with the Hopper kernel; False, and nothing done, where a layout is not for the copy engine."""
    (B, Hq, Nq, D), Hkv, Nk = q.shape, k.shape[1], k.shape[2]
    BLOCK_D = max(16, triton.next_power_of_2(D))
    boxes = [described(x, rows, BLOCK_D) for x, rows in ((q, 64), (k, tiles.BLOCK_K), (v, tiles.BLOCK_K), (o, 64))]
    if None in boxes:
        return False
    flash_attention_hopper_kernel[(triton.cdiv(Nq, tiles.BLOCK_Q) * B * Hq,)](
        *boxes, lse, Hq, Hkv, Nq, Nk, qk_scale, CAUSAL=causal, TAKE_TURNS=tiles.take_turns,
        GROUPS=tiles.warp_groups, STAGES=tiles.num_stages, num_warps=tiles.num_warps)
    return True


def flash_attention_fast(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False, scale: float | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """flash_attention, tuned for the GPU it runs on; return o (B, Hq, Nq, D) and lse (B, Hq, Nq)."""
    check_kernel_inputs("flash_attention_fast", q, k, v)
    (B, Hq, Nq, D), Hkv, Nk = q.shape, k.shape[1], k.shape[2]
    scale = D**-0.5 if scale is None else scale
    if scale <= 0:                                  # the fast kernels take the maximum before they scale
        return flash_attention(q, k, v, causal, scale)
    BLOCK_D = max(16, triton.next_power_of_2(D))
    tiles = tiles_for(gpu_capability(), D, q.dtype, causal)
    raise NotImplementedError("flash_attention_fast: your code goes here")
