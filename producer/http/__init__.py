"""The HTTP server, which answers questions synchronously."""
