"""efflab is imported before any test imports triton: it chooses Triton's interpreter where there is no GPU."""

import efflab  # noqa: F401
