"""The GPUs of this machine: their names and groups, and what the driver says of them."""
