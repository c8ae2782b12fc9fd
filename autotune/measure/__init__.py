"""Computes medians, standard errors and validity codes from samples (step 7 of the data flow, observation).

The probe (step 6) uses some of these functions while it measures. The modules contain pure functions on
arrays: they do no input or output, read no clock and have no global random state.

- `location`: the location (median, mean or minimum) of samples with a standard error and an interval;
- `rows`: the same statistics for growing rows of samples, without numpy;
- `stopping`: how many further samples each cell (each call to time) gets within a time budget;
- `launch_spread`: how much launches are assumed to differ as long as none were measured;
- `two_stage`: the optimal duration of a launch's measurement;
- `windows`: clocks of several ranks, start windows, validity codes;
- `machine`: interference from other work on a machine.
"""
