"""Samples → medians, standard errors, validity: step 7 of the flow, and the probe's own statistics.

Pure functions on numpy arrays: no input or output, no clock, no global random state.

- `location`: one number with a standard error and an interval;
- `stopping`: how many more samples each cell gets, within a budget;
- `windows`: clocks of several ranks, start windows, validity codes.
"""
