"""Tests of the program `nvprof`, without a GPU."""
