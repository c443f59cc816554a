"""What is prepared once, at set-up: compiled kernels, and the archive of Java classes."""
