"""Samples → medians, standard errors, validity: step 7 of the flow, and the probe's own statistics.

The modules hold pure functions on arrays: no input or output, no clock, no global random state.

- `location`: the location of samples with a standard error and an interval;
- `rows`: the same statistics for growing rows of samples, without numpy;
- `stopping`: the number of further samples of each cell, within a budget;
- `launch_spread`: what is assumed of differences between launches;
- `two_stage`: the length of a launch's measurement;
- `windows`: clocks of several ranks, start windows, validity codes;
- `machine`: interference from other work on a machine.
"""
