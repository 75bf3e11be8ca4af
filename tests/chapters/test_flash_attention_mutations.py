"""Real wrong kernels: each is the solution with one edit, and the cases must refuse every one of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from efflab import course
from efflab.checking import check_function
from solutions import flash_attention as solution

SOURCE = Path(str(solution.__file__)).read_text(encoding="utf-8")

# Text that occurs once in its part of the solution, and what stands there instead.
PLAIN = {
    "the sum is not rescaled": ("l = l * alpha + tl.sum(p, axis=1)", "l = l + tl.sum(p, axis=1)"),
    "the accumulator is not rescaled": ("v, acc * alpha[:, None], input", "v, acc, input"),
    "the rescaling is turned upside down": ("alpha = tl.exp(m - m_safe)", "alpha = tl.exp(m_safe - m)"),
    "m is overwritten before alpha": ("alpha = tl.exp(m - m_safe)", "m = m_new\n        alpha = tl.exp(m - m_safe)"),
    "padded keys count": ("visible = (cols < Nk)[None, :]", "visible = (cols < Nk + BLOCK_K)[None, :]"),
    "the mask is top-left": ("cols[None, :] <= rows[:, None] + Nk - Nq", "cols[None, :] <= rows[:, None]"),
    "the mask hides the diagonal": ("<= rows[:, None] + Nk - Nq", "< rows[:, None] + Nk - Nq"),
    "the loop stops at the first row's end": ("(tile + 1) * BLOCK_Q + Nk - Nq", "tile * BLOCK_Q + 1 + Nk - Nq"),
    "the loop stops without the offset": ("(tile + 1) * BLOCK_Q + Nk - Nq", "(tile + 1) * BLOCK_Q"),
    "heads modulo": ("h_kv = h // (Hq // Hkv)", "h_kv = h % Hkv"),
    "heads divided": ("h_kv = h // (Hq // Hkv)", "h_kv = h // Hkv"),
    "no scale": ("PRECISION) * scale ", "PRECISION) "),
    "scale applied twice": ("PRECISION) * scale ", "PRECISION) * scale * scale "),
    "lse in powers of two": ("m + tl.log(l)", "(m + tl.log(l)) * 1.4426950408889634"),
    "lse without the maximum": ("m + tl.log(l)", "tl.log(l)"),
    "accumulator in float16": ("acc * alpha[:, None], input_precision=PRECISION)",
                               "acc * alpha[:, None], input_precision=PRECISION).to(q.dtype).to(tl.float32)"),
    "m starts at 0": ('m = tl.full((BLOCK_Q,), float("-inf"), dtype=tl.float32)',
                      "m = tl.zeros((BLOCK_Q,), dtype=tl.float32)"),
    "divided in the loop": ("        m = m_new\n",
                            "        m = m_new\n        acc = acc / tl.where(l == 0.0, 1.0, l)[:, None]\n"),
    "not divided": ("o.to(o_ptr.dtype.element_ty)", "acc.to(o_ptr.dtype.element_ty)"),
    "a large negative number for minus infinity": ('s = tl.where(visible, s, float("-inf"))',
                                                   "s = tl.where(visible, s, -1e6)"),
    "no guard for rows that saw nothing": ('tl.where(m_new == float("-inf"), 0.0, m_new)', "m_new"),
    "int32 offsets of keys": ("k_head + cols.to(tl.int64)[:, None]", "k_head + cols[:, None]"),
    "int32 offsets of heads": ("b_h = (tl.program_id(0) // q_tiles).to(tl.int64)", "b_h = tl.program_id(0) // q_tiles"),
    "columns taken for adjacent": ("* k_stride_n + dims[None, :] * k_stride_d", "* k_stride_n + dims[None, :]"),
    "rows taken for adjacent": ("[:, None] * k_stride_n", "[:, None] * D"),
    "k's strides used for v": ("[:, None] * v_stride_n", "[:, None] * k_stride_n"),
    "k's head stride used for v": ("h_kv * v_stride_h", "h_kv * k_stride_h"),
    "q's batch stride used for k": ("k_ptr + b * k_stride_b", "k_ptr + b * q_stride_b"),
    "columns past D are read": ("inside = (cols < Nk)[:, None] & (dims < D)[None, :]", "inside = (cols < Nk)[:, None]"),
    "keys past Nk are read": ("inside = (cols < Nk)[:, None] & (dims < D)[None, :]", "inside = (dims < D)[None, :]"),
    "o is stored past Nq": ("element_ty), mask=(rows < Nq)[:, None] & (dims < D)[None, :]",
                            "element_ty), mask=(dims < D)[None, :]"),
    "o is stored past D": ("element_ty), mask=(rows < Nq)[:, None] & (dims < D)[None, :]",
                           "element_ty), mask=(rows < Nq)[:, None]"),
    "lse is stored past Nq": ("tl.log(l), mask=rows < Nq", "tl.log(l), mask=rows < Nq + 1"),
    "the last program is missing": ("programs = triton.cdiv(Nq, BLOCK_Q) * B * Hq",
                                    "programs = max(1, Nq // BLOCK_Q) * B * Hq"),
    "p is rounded for float32 inputs": ("p.to(v.dtype)", "p.to(tl.float16).to(v.dtype)"),
}
FAST = {
    "lse in powers of two": ("m * 0.6931471805599453 + tl.log(l)", "m + tl.log2(l)"),
    "lse of mixed bases": ("m * 0.6931471805599453 + tl.log(l)", "m + tl.log(l)"),
    "exp2 without log2(e)": ("qk_scale = scale * math.log2(math.e)", "qk_scale = scale"),
    "the maximum is not scaled": ("tl.max(s, axis=1) * qk_scale", "tl.max(s, axis=1)"),
    "the border is rounded up": ("k_split = seen_by_all // BLOCK_K * BLOCK_K",
                                 "k_split = tl.cdiv(seen_by_all, BLOCK_K) * BLOCK_K"),
    "the border ignores Nk - Nq": ("tl.minimum(Nk, q_start + 1 + Nk - Nq))", "tl.minimum(Nk, q_start + 1))"),
    "the tile at the border is skipped": ("v_head, k_split, k_end, last", "v_head, k_split + BLOCK_K, k_end, last"),
    "the second loop is missing": ("v_head, k_split, k_end, last", "v_head, k_end, k_end, last"),
    "the first loop is missing": ("v_head, 0, k_split, last", "v_head, k_split, k_split, last"),
    "the mask forgets the end of the keys": ("last_seen = tl.minimum(last_seen, rows + Nk - Nq)",
                                             "last_seen = rows + Nk - Nq + BLOCK_Q"),
    "the mask is top-left": ("last_seen = tl.minimum(last_seen, rows + Nk - Nq)",
                             "last_seen = tl.minimum(last_seen, rows)"),
    "the loop ends without the offset": ("k_end = tl.minimum(Nk, q_start + BLOCK_Q + Nk - Nq)",
                                         "k_end = tl.minimum(Nk, q_start + BLOCK_Q)"),
    "a large negative number for minus infinity": ('last_seen[:, None], s, float("-inf"))',
                                                   "last_seen[:, None], s, -1e6)"),
    "no guard for rows that saw nothing": ('tl.where(m_new == float("-inf"), 0.0, m_new)', "m_new"),
    "the sum is not rescaled": ("l = l * alpha + tl.sum(p, axis=1)", "l = l + tl.sum(p, axis=1)"),
    "the accumulator is not rescaled": ("v, acc * alpha[:, None], input", "v, acc, input"),
    "the turned order leaves a tile out": ("(q_tiles - 1 - tl.program_id(0) % q_tiles)",
                                           "(q_tiles - tl.program_id(0) % q_tiles)"),
    "tiles are stored where they were not computed": (
        "o_ptrs = o_ptr + (b_h * Nq + rows[:, None])",
        "rows = tl.program_id(0) % q_tiles * BLOCK_Q + tl.arange(0, BLOCK_Q)\n"
        "    o_ptrs = o_ptr + (b_h * Nq + rows[:, None])"),
    "heads modulo": ("h_kv = h // (Hq // Hkv)", "h_kv = h % Hkv"),
    "v of the query's head": ("v_ptr + b * v_stride_b + h_kv * v_stride_h", "v_ptr + b * v_stride_b + h * v_stride_h"),
    "int32 offsets of rows": ("rows.to(tl.int64)[:, None] * stride_n", "rows[:, None] * stride_n"),
    "int32 offsets of heads": ("b_h = (tl.program_id(0) // q_tiles).to(tl.int64)", "b_h = tl.program_id(0) // q_tiles"),
    "o is stored past Nq": ("element_ty), mask=(rows < Nq)[:, None] & (dims < D)[None, :]",
                            "element_ty), mask=(dims < D)[None, :]"),
    "no mask on a ragged D": ("tl.load(pointers, mask=(dims < D)[None, :], other=0.0)", "tl.load(pointers)"),
    "the tail of the keys is read": ("mask=(start + rows < N)[:, None] & (dims < D)[None, :]",
                                     "mask=(dims < D)[None, :]"),
}
ALL = [("flash_attention", name, *edit) for name, edit in PLAIN.items()] + \
      [("flash_attention_fast", name, *edit) for name, edit in FAST.items()]
# Where each exercise's own definitions stand. What lies between the last two runs on Hopper alone.
PARTS = {"flash_attention": [("@triton.jit\ndef flash_attention_kernel(", "# --- 5.")],
         "flash_attention_fast": [("def load_rows(", "@gluon.jit"), ("def flash_attention_fast(\n", "# END SOLUTION")]}


def mutated(exercise: str, old: str, new: str) -> str:
    """The solution's text with the one place changed. Fails when that place is no longer there, or not alone."""
    spans = [(SOURCE.index(a), SOURCE.index(b, SOURCE.index(a))) for a, b in PARTS[exercise]]
    places = [a + SOURCE[a:b].index(old) for a, b in spans if old in SOURCE[a:b]]
    assert len(places) == 1, f"{old!r} occurs in {len(places)} parts of the solution of {exercise}"
    assert sum(SOURCE[a:b].count(old) for a, b in spans) == 1, f"{old!r} occurs more than once"
    return SOURCE[:places[0]] + new + SOURCE[places[0] + len(old):]


@pytest.mark.parametrize(("exercise", "name", "old", "new"), ALL, ids=[f"{e}: {n}" for e, n, _, _ in ALL])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_wrong_kernel_is_refused(exercise: str, name: str, old: str, new: str) -> None:
    module = course.load_source(mutated(exercise, old, new), f"<{exercise}: {name}>", "mutated_flash_attention")
    report = check_function(course.find_exercise(f"flash_attention.{exercise}"), getattr(module, exercise), seed=4)
    assert report.outcome == "failed", f"{name}: {report}"
