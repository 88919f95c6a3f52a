# The demo's base model, made from nothing: about half an hour on one free core, exit 1 when it does not copy.
TINY_MODEL_PYTHON ?= $(SWERL_HOME)/trainer-venv/bin/python
TINY_MODEL_RUN ?= $(SWERL_HOME)/tiny-model
# Without these the allocator returns and maps pages at every step: four times slower.
TINY_MODEL_ENV = OMP_WAIT_POLICY=PASSIVE GOMP_SPINCOUNT=0 MALLOC_MMAP_MAX_=0 MALLOC_ARENA_MAX=1 \
	MALLOC_TRIM_THRESHOLD_=20000000000 MALLOC_TOP_PAD_=268435456

.PHONY: tiny-model
tiny-model: ## pre-train the demo's base model from nothing and export it to tiny_model/model
	@$(TINY_MODEL_PYTHON) -c "import torch, transformers, yaml, jinja2" || { \
	  echo "tiny-model: $(TINY_MODEL_PYTHON) lacks torch or transformers; set TINY_MODEL_PYTHON to a Python that has them"; exit 1; }
	@mkdir -p $(TINY_MODEL_RUN)
	@$(TINY_MODEL_ENV) $(TINY_MODEL_PYTHON) -m tiny_model.pretrain $(TINY_MODEL_RUN)
	@$(TINY_MODEL_PYTHON) -m tiny_model.export $(TINY_MODEL_RUN) tiny_model/model
