# The demo's base model, trained from random weights in the trainer's image. It takes about half an hour on one free core
# and exits with 1 when the model cannot copy. The run stays in $(SWERL_HOME)/images until the next one.
# TINY_MODEL_OPTIONS are passed to tiny_model.pretrain.
# Without these variables the allocator unmaps and maps pages at every step, which is four times slower.
TINY_MODEL_ENV = OMP_WAIT_POLICY=PASSIVE GOMP_SPINCOUNT=0 MALLOC_MMAP_MAX_=0 MALLOC_ARENA_MAX=1 \
	MALLOC_TRIM_THRESHOLD_=20000000000 MALLOC_TOP_PAD_=268435456

.PHONY: tiny-model
tiny-model: venv ## pre-train the demo's base model from random weights and export it to tiny_model/model
	@$(PYTHON) -m images trainer -- env $(TINY_MODEL_ENV) sh -c \
	  'python -m tiny_model.pretrain /cache/tiny-model $(TINY_MODEL_OPTIONS) && python -m tiny_model.export /cache/tiny-model tiny_model/model'
