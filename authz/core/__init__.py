"""The pure core: no clock, no randomness, no environment, no I/O. Facts and time come in as arguments."""
