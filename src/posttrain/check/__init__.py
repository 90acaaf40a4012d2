"""`posttrain check`: run the matching contract suite on a part of one's own, or the learner's on a config."""
