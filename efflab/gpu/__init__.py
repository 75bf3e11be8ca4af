"""What this GPU can do, timing, peers, and compiling for GPUs that are not there."""
