"""The SWE-RL operator: SweRLJobs become Ray clusters with a driver, SweSandboxes become groups of single-use Pods."""
