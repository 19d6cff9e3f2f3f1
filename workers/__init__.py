"""Workers: the processes that run on the GPU hosts."""
