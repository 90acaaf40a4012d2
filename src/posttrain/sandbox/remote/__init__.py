"""A pool of sandboxes on other machines, spoken to over HTTP in the form of SandboxFusion's `/run_code`."""
