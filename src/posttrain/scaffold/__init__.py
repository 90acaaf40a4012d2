"""`posttrain new`: a domain package to begin from; its files are templates beside this module."""
