"""A reward function as verl takes it, used unchanged: `reward = "verl_reward:compute_score"`."""


def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    """Give 1.0 for the right answer after '####', 0.1 for any answer in that form."""
    _, marked, answer = solution_str.rpartition("####")
    right = bool(marked) and answer.strip() == ground_truth
    return {"score": 1.0 if right else 0.1 * bool(marked), "marked": bool(marked)}
