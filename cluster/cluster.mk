# The local cluster; needs only Python >= 3.11 and Go. SWERL_CLUSTER_NAME=second starts another one beside it;
# SWERL_CLUSTER=existing starts none and checks the cluster of your kubeconfig.
CLUSTER_PYTHON ?= python3

.PHONY: cluster cluster-down cluster-status

cluster: ## start the local Kubernetes, or restart its dead components
	@$(CLUSTER_PYTHON) -m cluster up

cluster-down: ## remove the local Kubernetes; keep pulled images for the next start
	@$(CLUSTER_PYTHON) -m cluster down

cluster-status: ## show the components of the local Kubernetes
	@$(CLUSTER_PYTHON) -m cluster status
