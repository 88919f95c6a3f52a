# The local cluster; needs nothing but Python >= 3.11 and Go. SWERL_CLUSTER_NAME=second makes another one beside it,
# SWERL_CLUSTER=existing starts none and checks the one of your kubeconfig.
CLUSTER_PYTHON ?= python3

.PHONY: cluster cluster-down cluster-status

cluster: ## start the local Kubernetes, or repair what does not run
	@$(CLUSTER_PYTHON) -m cluster up

cluster-down: ## remove the local Kubernetes; pulled images are kept for the next start
	@$(CLUSTER_PYTHON) -m cluster down

cluster-status: ## what of the local Kubernetes runs
	@$(CLUSTER_PYTHON) -m cluster status
