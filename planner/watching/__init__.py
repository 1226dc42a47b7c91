"""What is seen in time of a run that goes wrong, or that has nothing left to win; pure.

Left out is what was measured to cry wolf or to come too late on 94 public curves and 111 runs with signals: entropy,
norms of gradients, KL, and alarms of the forecast.
"""
