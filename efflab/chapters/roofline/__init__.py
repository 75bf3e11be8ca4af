"""Chapter 01: arithmetic intensity, the roofline, and measuring without fooling yourself."""
