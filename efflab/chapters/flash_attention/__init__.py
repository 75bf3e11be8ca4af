"""Chapter 04, FlashAttention: from the definition to a kernel tuned for the GPU it runs on."""
