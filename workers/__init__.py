"""Workers: what runs beside a GPU."""
