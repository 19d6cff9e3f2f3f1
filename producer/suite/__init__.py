"""`python -m producer suite`: question sets, ways of asking and models, run with one command and shown in one table.

config    the contents of a suite's file
plan      all of its runs, checked before the first one is written
submitted what is said of them when they have been enqueued
running   following them to the end, and printing them;  watching, progress  what is shown in the meantime
table     its figures, a `cell` for each run;  pairs  which runs differ;  render, export  both for people and programs
"""
