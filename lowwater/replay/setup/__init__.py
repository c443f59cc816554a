"""Work done once at set-up: compiling kernels, recording the archive of Java classes."""
