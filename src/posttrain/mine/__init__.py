"""`posttrain mine`: tasks from the doctests of an installed package.

Sources are read as syntax trees and never imported; whatever runs, runs in the sandbox.
"""
