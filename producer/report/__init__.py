"""`python -m producer report`: the results of runs as one self-contained HTML file that needs no network."""
