"""What every part must hold to, one suite per protocol, to run on our implementations and on yours."""
