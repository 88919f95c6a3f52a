"""Commands about SweRLJobs; the logic is in `swerl_agent.jobs`."""
