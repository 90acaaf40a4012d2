"""What attempts amount to: pass@k, intervals, paired comparisons, constants, tables; no torch here."""
