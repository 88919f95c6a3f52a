# The demo's base model, made from nothing in the trainer's image: about half an hour on one free core, exit 1 when it does
# not copy. The run lies in $(SWERL_HOME)/images, until the next one. TINY_MODEL_OPTIONS: those of tiny_model.pretrain.
# Without these the allocator returns and maps pages at every step: four times slower.
TINY_MODEL_ENV = OMP_WAIT_POLICY=PASSIVE GOMP_SPINCOUNT=0 MALLOC_MMAP_MAX_=0 MALLOC_ARENA_MAX=1 \
	MALLOC_TRIM_THRESHOLD_=20000000000 MALLOC_TOP_PAD_=268435456

.PHONY: tiny-model
tiny-model: venv ## pre-train the demo's base model from nothing and export it to tiny_model/model
	@$(PYTHON) -m images trainer -- env $(TINY_MODEL_ENV) sh -c \
	  'python -m tiny_model.pretrain /cache/tiny-model $(TINY_MODEL_OPTIONS) && python -m tiny_model.export /cache/tiny-model tiny_model/model'
