"""Helper library of the course "Efficiency Frontiers"."""
