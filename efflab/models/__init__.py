"""Small real models and texts for the inference and training chapters."""
