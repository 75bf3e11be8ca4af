"""Shared pieces for pictures and widgets."""
