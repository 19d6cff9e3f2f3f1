"""The demo of `make demo`: a real server, a real worker, real weights, and 160 questions made from plain facts."""
