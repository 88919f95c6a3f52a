"""What jobs and evaluations share of Ray: RayClusters, Ray jobs, volumes of their Pods, clean-up."""
