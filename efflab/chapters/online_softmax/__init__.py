"""Chapter 03: softmax in one pass, merged from pieces, and as one kernel that reads its row once."""
