"""Verdicts: what a candidate answered is compared here, where no candidate's code ever runs."""
