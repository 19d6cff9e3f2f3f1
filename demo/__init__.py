"""What `make demo` runs: a real server, a real worker, real weights, and 160 questions made from plain facts."""
