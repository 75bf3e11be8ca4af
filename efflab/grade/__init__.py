"""Submissions: isolate, run, judge, report."""
