"""What rules promise: proved constants, measured ratios, a search that tries to break them, certificates of a round."""
