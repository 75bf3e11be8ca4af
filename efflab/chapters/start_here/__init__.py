"""Chapter 00: what the course is, and how a check works."""
