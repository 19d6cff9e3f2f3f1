"""`python -m producer suite`: several question sets, several ways of asking, several models; one command, one table.

file      what a suite's file may say
planned   every run of it, checked before the first one is written
watching  staying with all of its runs;  board  what is shown meanwhile
table     its figures, a `cell` for each run;  paired  which runs differ;  shown, files  both for people and programs
"""

from producer.suite.command import suite

__all__ = ["suite"]
