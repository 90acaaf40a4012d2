"""The dispatcher: a process of its own that holds hidden tests and compares."""
