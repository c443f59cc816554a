"""Work done once at set-up: compiling kernels."""
