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
from triton.tools.tensor_descriptor import TensorDescriptor


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
    # BEGIN SOLUTION
    Nq, Nk, Hkv = q.shape[2], k.shape[2], k.shape[1]
    wide = torch.promote_types(q.dtype, torch.float32)                  # half precision only enters and leaves
    grouped_q = q.to(wide).unflatten(1, (Hkv, -1))                      # (B, Hkv, Hq // Hkv, Nq, D)
    k, v = k.to(wide).unsqueeze(2), v.to(wide).unsqueeze(2)             # (B, Hkv, 1, Nk, D)
    s = grouped_q @ k.mT * scale                                        # (B, Hkv, Hq // Hkv, Nq, Nk)
    if causal:
        i = torch.arange(Nq, device=q.device)[:, None]
        j = torch.arange(Nk, device=q.device)[None, :]
        s = s.masked_fill(j > i + Nk - Nq, -math.inf)
    lse = s.logsumexp(-1, keepdim=True)                                 # -inf where a row sees nothing
    p = torch.exp(s - lse.masked_fill(lse == -math.inf, 0.0))           # and -inf - (-inf) would be NaN
    o = (p @ v).flatten(1, 2)                                           # (B, Hq, Nq, D)
    return o.to(q.dtype), lse.squeeze(-1).flatten(1, 2).float()
    # END SOLUTION


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
    wide = torch.promote_types(q.dtype, torch.float32)
    # BEGIN SOLUTION
    for q_start in range(0, Nq, block_q):
        rows = slice(q_start, min(q_start + block_q, Nq))
        q_tile = q[:, :, rows].to(wide).unflatten(1, (Hkv, -1)) * scale             # (B, Hkv, Hq // Hkv, rows, D)
        i = torch.arange(rows.start, rows.stop, device=q.device)[:, None]
        m = q_tile.new_full((*q_tile.shape[:-1], 1), -math.inf)                     # running maximum
        l = torch.zeros_like(m)                                                     # running sum of exponentials
        acc = torch.zeros_like(q_tile)                                              # running sum of p @ v
        k_end = max(0, min(Nk, rows.stop + Nk - Nq)) if causal else Nk              # the last row sees this far
        for k_start in range(0, k_end, block_k):
            cols = slice(k_start, min(k_start + block_k, k_end))
            s = q_tile @ k[:, :, cols].to(wide).unsqueeze(2).mT                     # (B, Hkv, Hq // Hkv, rows, cols)
            if causal:
                j = torch.arange(cols.start, cols.stop, device=q.device)[None, :]
                s.masked_fill_(j > i + Nk - Nq, -math.inf)
            m_new = torch.maximum(m, s.amax(-1, keepdim=True))
            m_safe = m_new.masked_fill(m_new == -math.inf, 0.0)                     # nothing seen yet: exp(-inf) = 0
            p, alpha = torch.exp(s - m_safe), torch.exp(m - m_safe)
            l = l * alpha + p.sum(-1, keepdim=True)
            acc = acc * alpha + p @ v[:, :, cols].to(wide).unsqueeze(2)
            m = m_new
        o[:, :, rows] = (acc / l.masked_fill(l == 0, 1.0)).flatten(1, 2)            # an empty row stays 0
        lse[:, :, rows] = (m + l.log()).squeeze(-1).flatten(1, 2)                   # and -inf + log(0) is -inf
    return o, lse
    # END SOLUTION


# --- 3. What it costs: elements that cross between the chip and its memory --------------------------------------------

def hbm_traffic(Nq: int, Nk: int, D: int, block_q: int, block_k: int, algorithm: str) -> int:
    """Elements read and written for one head, not causal, by algorithm "naive", "fa1" or "fa2"."""
    if algorithm not in ("naive", "fa1", "fa2"):
        raise ValueError(f'hbm_traffic knows the algorithms "naive", "fa1" and "fa2"; got {algorithm!r}')
    # BEGIN SOLUTION
    if algorithm == "naive":
        return 2 * (Nq + Nk) * D + 4 * Nq * Nk                          # q, k, v, o; s and p each written and read
    if algorithm == "fa1":
        k_tiles = math.ceil(Nk / block_k)
        return 2 * Nk * D + k_tiles * (3 * Nq * D + 4 * Nq)             # a tile of keys: q in; o, m, l in and out
    q_tiles = math.ceil(Nq / block_q)
    return 2 * Nq * D + Nq + q_tiles * 2 * Nk * D                       # a tile of queries: all of k and v
    # END SOLUTION


# --- 4. The kernel ----------------------------------------------------------------------------------------------------

KERNEL_FLOAT = (torch.float16, torch.bfloat16, torch.float32)
MAX_D = 256


def check_kernel_inputs(name: str, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> None:
    """check_inputs, and what the Triton kernels cannot do."""
    check_inputs(name, q, k, v, KERNEL_FLOAT)
    if q.shape[3] > MAX_D:
        raise ValueError(f"{name} holds whole rows on the chip and takes D up to {MAX_D}; got {q.shape[3]}; "
                         "use tiled_attention")
    if q.dtype == torch.bfloat16 and os.environ.get("TRITON_INTERPRET") == "1":
        raise ValueError(f"{name}: Triton's interpreter computes bfloat16 wrongly; got bfloat16; "
                         "use float16 or float32 here, bfloat16 on a GPU")


def gpu_capability() -> tuple[int, int] | None:
    """(9, 0) for an H200, (7, 5) for a T4 ...; None without a GPU, where kernels run in Triton's interpreter."""
    return torch.cuda.get_device_capability() if torch.cuda.is_available() else None


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
    rows = tile * BLOCK_Q + tl.arange(0, BLOCK_Q).to(tl.int64)
    dims = tl.arange(0, BLOCK_D).to(tl.int64)
    # BEGIN SOLUTION
    q_ptrs = q_ptr + b * q_stride_b + h * q_stride_h + rows[:, None] * q_stride_n + dims[None, :] * q_stride_d
    k_head = k_ptr + b * k_stride_b + h_kv * k_stride_h
    v_head = v_ptr + b * v_stride_b + h_kv * v_stride_h
    q = tl.load(q_ptrs, mask=(rows < Nq)[:, None] & (dims < D)[None, :], other=0.0)         # (BLOCK_Q, BLOCK_D)

    # Running maximum, sum and output of each row, in float32 whatever the input dtype.
    m = tl.full((BLOCK_Q,), float("-inf"), dtype=tl.float32)
    l = tl.zeros((BLOCK_Q,), dtype=tl.float32)
    acc = tl.zeros((BLOCK_Q, BLOCK_D), dtype=tl.float32)

    k_end = Nk
    if CAUSAL:                                              # the tile's last row sees this far; nothing if negative
        k_end = tl.minimum(Nk, (tile + 1) * BLOCK_Q + Nk - Nq)
    for k_start in range(0, k_end, BLOCK_K):
        cols = k_start + tl.arange(0, BLOCK_K).to(tl.int64)
        inside = (cols < Nk)[:, None] & (dims < D)[None, :]
        k_ptrs = k_head + cols[:, None] * k_stride_n + dims[None, :] * k_stride_d
        k = tl.load(k_ptrs, mask=inside, other=0.0)                                         # (BLOCK_K, BLOCK_D)
        s = tl.dot(q, k.T, input_precision=PRECISION) * scale                               # (BLOCK_Q, BLOCK_K)
        visible = (cols < Nk)[None, :]
        if CAUSAL:
            visible = visible & (cols[None, :] <= rows[:, None] + Nk - Nq)
        s = tl.where(visible, s, float("-inf"))             # not a large negative number: exp must give 0

        m_new = tl.maximum(m, tl.max(s, axis=1))
        m_safe = tl.where(m_new == float("-inf"), 0.0, m_new)   # a row that saw nothing: -inf - (-inf) is NaN
        p = tl.exp(s - m_safe[:, None])
        alpha = tl.exp(m - m_safe)                          # what the sums so far must shrink by
        l = l * alpha + tl.sum(p, axis=1)
        v_ptrs = v_head + cols[:, None] * v_stride_n + dims[None, :] * v_stride_d
        v = tl.load(v_ptrs, mask=inside, other=0.0)                                         # (BLOCK_K, BLOCK_D)
        acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None], input_precision=PRECISION)
        m = m_new

    # One division at the end. An empty row has l = 0 and m = -inf: with l = 1 it gives o = 0 and lse = -inf.
    l = tl.where(l == 0.0, 1.0, l)
    o = acc / l[:, None]
    o_ptrs = o_ptr + (b_h * Nq + rows[:, None]) * D + dims[None, :]
    tl.store(o_ptrs, o.to(o_ptr.dtype.element_ty), mask=(rows < Nq)[:, None] & (dims < D)[None, :])
    tl.store(lse_ptr + b_h * Nq + rows, m + tl.log(l), mask=rows < Nq)
    # END SOLUTION


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
    # BEGIN SOLUTION
    o = torch.empty((B, Hq, Nq, D), dtype=q.dtype, device=q.device)
    lse = torch.empty((B, Hq, Nq), dtype=torch.float32, device=q.device)
    programs = triton.cdiv(Nq, BLOCK_Q) * B * Hq
    if programs > 0:
        flash_attention_kernel[(programs,)](
            q, k, v, o, lse, *q.stride(), *k.stride(), *v.stride(), Hq, Hkv, Nq, Nk, D, scale,
            CAUSAL=causal, PRECISION="ieee",                                      # float32 stays float32, not TF32
            BLOCK_Q=BLOCK_Q, BLOCK_K=BLOCK_K, BLOCK_D=BLOCK_D, num_warps=4 if D <= 128 else 8,
        )
    return o, lse
    # END SOLUTION


# --- 5. The kernel, tuned ---------------------------------------------------------------------------------------------

@dataclass(frozen=True, kw_only=True)
class Tiles:
    """How flash_attention_fast cuts and launches its work."""
    BLOCK_Q: int
    BLOCK_K: int
    num_warps: int
    num_stages: int                     # tiles of k and v in flight
    use_descriptors: bool = False       # tiles come by TMA, Hopper's bulk copy engine, if strides allow
    heads_together: int = 1             # heads whose programs are launched side by side


def tiles_for(capability: tuple[int, int] | None, D: int, dtype: torch.dtype, causal: bool) -> Tiles:
    """Choose tiles for a GPU's compute capability (None: Triton's interpreter), head size and dtype."""
    if capability is None:
        return Tiles(BLOCK_Q=64, BLOCK_K=64, num_warps=4, num_stages=1)             # few steps: each costs 10 ms
    if capability < (8, 0) or dtype == torch.float32:
        # No tensor cores for this dot: both factors pass through registers, and wider tiles spill.
        return Tiles(BLOCK_Q=32, BLOCK_K=16, num_warps=4 if D <= 128 else 8, num_stages=1)
    if D > 128:
        return Tiles(BLOCK_Q=64, BLOCK_K=32, num_warps=8, num_stages=2)
    if capability == (9, 0) and D <= 64:
        return Tiles(BLOCK_Q=64, BLOCK_K=128, num_warps=4, num_stages=2, use_descriptors=True)
    if capability == (9, 0):
        return Tiles(BLOCK_Q=128, BLOCK_K=128, num_warps=8, num_stages=3, use_descriptors=True)
    return Tiles(BLOCK_Q=128, BLOCK_K=64, num_warps=8, num_stages=3)                # 96 KiB at D = 128: fits sm_89


@triton.jit
def load_rows(
    source, b, h, start, N, stride_b, stride_h, stride_n, stride_d,
    D: tl.constexpr, ROWS: tl.constexpr, BLOCK_D: tl.constexpr, DESCRIPTOR: tl.constexpr, TAIL: tl.constexpr,
):
    """Rows start .. start + ROWS of head (b, h), zero outside: by TMA, or through pointers."""
    if DESCRIPTOR:
        tile = source.load([b, h, start, 0]).reshape(ROWS, BLOCK_D)     # fills with zeros past N and D by itself
    else:
        rows = start + tl.arange(0, ROWS).to(tl.int64)
        dims = tl.arange(0, BLOCK_D).to(tl.int64)
        head = source + b.to(tl.int64) * stride_b + h.to(tl.int64) * stride_h
        pointers = head + rows[:, None] * stride_n + dims[None, :] * stride_d
        if TAIL:
            tile = tl.load(pointers, mask=(rows < N)[:, None] & (dims < D)[None, :], other=0.0)
        elif D < BLOCK_D:
            tile = tl.load(pointers, mask=(dims < D)[None, :], other=0.0)
        else:
            tile = tl.load(pointers)                                    # a full tile: nothing to test
    return tile


@triton.jit
def attend(
    acc, l, m, q, k_source, v_source, k_first, k_last, b, h_kv, rows, last_seen, Nk, qk_scale,
    k_stride_b, k_stride_h, k_stride_n, k_stride_d,
    v_stride_b, v_stride_h, v_stride_n, v_stride_d,
    MASKED: tl.constexpr, PRECISION: tl.constexpr, D: tl.constexpr,
    BLOCK_K: tl.constexpr, BLOCK_D: tl.constexpr, DESCRIPTOR: tl.constexpr,
):
    """Fold the keys k_first .. k_last into (acc, l, m); MASKED: some of them some rows may not see."""
    # BEGIN SOLUTION
    for k_start in tl.range(k_first, k_last, BLOCK_K):
        k = load_rows(k_source, b, h_kv, k_start, Nk, k_stride_b, k_stride_h, k_stride_n, k_stride_d,
                      D, BLOCK_K, BLOCK_D, DESCRIPTOR, MASKED)
        s = tl.dot(q, k.T, input_precision=PRECISION)                   # (BLOCK_Q, BLOCK_K), not yet scaled
        if MASKED:
            cols = k_start + tl.arange(0, BLOCK_K)
            s = tl.where(cols[None, :] <= last_seen[:, None], s, float("-inf"))
        # exp(scale * s) = exp2(qk_scale * s): one multiply-add and one exp2 an element, both free of other work.
        m_new = tl.maximum(m, tl.max(s, axis=1) * qk_scale)
        m_safe = m_new
        if MASKED:                                                      # only here can a row have seen nothing yet
            m_safe = tl.where(m_new == float("-inf"), 0.0, m_new)
        p = tl.math.exp2(s * qk_scale - m_safe[:, None])
        alpha = tl.math.exp2(m - m_safe)
        l = l * alpha + tl.sum(p, axis=1)
        v = load_rows(v_source, b, h_kv, k_start, Nk, v_stride_b, v_stride_h, v_stride_n, v_stride_d,
                      D, BLOCK_K, BLOCK_D, DESCRIPTOR, MASKED)
        acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None], input_precision=PRECISION)
        m = m_new
    # END SOLUTION
    return acc, l, m


@triton.jit
def flash_attention_fast_kernel(
    q_source, k_source, v_source, o_ptr, lse_ptr,           # sources: pointers or descriptors of (B, H, N, D)
    q_stride_b, q_stride_h, q_stride_n, q_stride_d,
    k_stride_b, k_stride_h, k_stride_n, k_stride_d,
    v_stride_b, v_stride_h, v_stride_n, v_stride_d,
    B, Hq, Hkv, Nq, Nk, qk_scale,
    D: tl.constexpr, CAUSAL: tl.constexpr, PRECISION: tl.constexpr,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_D: tl.constexpr,
    DESCRIPTOR: tl.constexpr, HEADS_TOGETHER: tl.constexpr,
):
    # BEGIN SOLUTION
    # Which piece. Programs start in order: take a few heads at a time, so that their k and v stay in L2, and
    # within them the last queries first, which see the most keys, so that the GPU ends on short programs.
    q_tiles = tl.cdiv(Nq, BLOCK_Q)
    group = tl.program_id(0) // (HEADS_TOGETHER * q_tiles)
    heads = tl.minimum(HEADS_TOGETHER, B * Hq - group * HEADS_TOGETHER)     # the last group may be smaller
    place = tl.program_id(0) % (HEADS_TOGETHER * q_tiles)
    b_h = group * HEADS_TOGETHER + place % heads
    q_start = (q_tiles - 1 - place // heads) * BLOCK_Q
    b, h = b_h // Hq, b_h % Hq
    h_kv = h // (Hq // Hkv)
    rows = q_start + tl.arange(0, BLOCK_Q)
    q = load_rows(q_source, b, h, q_start, Nq, q_stride_b, q_stride_h, q_stride_n, q_stride_d,
                  D, BLOCK_Q, BLOCK_D, DESCRIPTOR, True)
    m = tl.full((BLOCK_Q,), float("-inf"), dtype=tl.float32)
    l = tl.zeros((BLOCK_Q,), dtype=tl.float32)
    acc = tl.zeros((BLOCK_Q, BLOCK_D), dtype=tl.float32)

    # Keys that every row of the tile sees, in whole tiles; then those that need the mask; the rest is skipped.
    shared, k_end = Nk, Nk
    last_seen = tl.full((BLOCK_Q,), 0, dtype=tl.int32) + (Nk - 1)
    if CAUSAL:
        shared = tl.maximum(0, tl.minimum(Nk, q_start + 1 + Nk - Nq))
        k_end = tl.minimum(Nk, q_start + BLOCK_Q + Nk - Nq)
        last_seen = tl.minimum(last_seen, rows + Nk - Nq)
    k_split = shared // BLOCK_K * BLOCK_K
    acc, l, m = attend(
        acc, l, m, q, k_source, v_source, 0, k_split, b, h_kv, rows, last_seen, Nk, qk_scale,
        k_stride_b, k_stride_h, k_stride_n, k_stride_d, v_stride_b, v_stride_h, v_stride_n, v_stride_d,
        False, PRECISION, D, BLOCK_K, BLOCK_D, DESCRIPTOR)
    acc, l, m = attend(
        acc, l, m, q, k_source, v_source, k_split, k_end, b, h_kv, rows, last_seen, Nk, qk_scale,
        k_stride_b, k_stride_h, k_stride_n, k_stride_d, v_stride_b, v_stride_h, v_stride_n, v_stride_d,
        True, PRECISION, D, BLOCK_K, BLOCK_D, DESCRIPTOR)

    # One division at the end; an empty row has l = 0 and m = -inf. m counts in powers of two: ln 2 turns it back.
    dims = tl.arange(0, BLOCK_D)
    l = tl.where(l == 0.0, 1.0, l)
    o = acc / l[:, None]
    o_ptrs = o_ptr + (b_h.to(tl.int64) * Nq + rows[:, None]) * D + dims[None, :]
    tl.store(o_ptrs, o.to(o_ptr.dtype.element_ty), mask=(rows < Nq)[:, None] & (dims < D)[None, :])
    lse = m * 0.6931471805599453 + tl.log(l)
    tl.store(lse_ptr + b_h.to(tl.int64) * Nq + rows, lse, mask=rows < Nq)
    # END SOLUTION


def described(x: torch.Tensor, rows: int, BLOCK_D: int) -> TensorDescriptor | None:
    """x (B, H, N, D) as TMA sees it, in boxes of rows x BLOCK_D; None where its layout is not TMA's."""
    sizes, strides = x.shape[:3], x.stride()[:3]
    whole = 16 // x.element_size()                                          # TMA steps in whole 16 bytes
    strides = [stride if size > 1 else whole for size, stride in zip(sizes, strides)]      # never stepped: any will do
    if x.stride(3) != 1 or x.data_ptr() % 16 != 0 or any(s == 0 or s % whole != 0 for s in strides):
        return None
    return TensorDescriptor(x, list(x.shape), [*strides, 1], [1, 1, rows, BLOCK_D])


def flash_attention_fast(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False, scale: float | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """flash_attention, tuned: split loops, exp2, launch order, tiles by GPU; return o (B, Hq, Nq, D) and lse."""
    check_kernel_inputs("flash_attention_fast", q, k, v)
    (B, Hq, Nq, D), Hkv, Nk = q.shape, k.shape[1], k.shape[2]
    scale = D**-0.5 if scale is None else scale
    if scale <= 0:                                  # the fast kernel takes the maximum before it scales
        return flash_attention(q, k, v, causal, scale)
    BLOCK_D = max(16, triton.next_power_of_2(D))
    tiles = tiles_for(gpu_capability(), D, q.dtype, causal)
    # BEGIN SOLUTION
    o = torch.empty((B, Hq, Nq, D), dtype=q.dtype, device=q.device)
    lse = torch.empty((B, Hq, Nq), dtype=torch.float32, device=q.device)
    if o.numel() == 0 or Nk == 0:                   # nothing to attend to: o = 0, lse = -inf
        return o.zero_(), lse.fill_(-math.inf)
    sources = [q, k, v]
    if tiles.use_descriptors:
        boxes = [described(q, tiles.BLOCK_Q, BLOCK_D), *(described(x, tiles.BLOCK_K, BLOCK_D) for x in (k, v))]
        if None in boxes:                           # a layout that TMA cannot step through: as on an A100
            tiles = tiles_for((8, 0), D, q.dtype, causal)
        else:
            sources = boxes
    programs = triton.cdiv(Nq, tiles.BLOCK_Q) * B * Hq
    flash_attention_fast_kernel[(programs,)](
        *sources, o, lse, *q.stride(), *k.stride(), *v.stride(), B, Hq, Hkv, Nq, Nk, scale * math.log2(math.e),
        D=D, CAUSAL=causal, PRECISION="ieee", BLOCK_Q=tiles.BLOCK_Q, BLOCK_K=tiles.BLOCK_K, BLOCK_D=BLOCK_D,
        DESCRIPTOR=tiles.use_descriptors, HEADS_TOGETHER=tiles.heads_together,
        num_warps=tiles.num_warps, num_stages=tiles.num_stages,
    )
    return o, lse
    # END SOLUTION
