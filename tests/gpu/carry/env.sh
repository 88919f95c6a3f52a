# Source it in the checkout on the GPU machine: unpacks what carry.sh packed and sets the environment of tests/gpu.
carried=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
test -d /tmp/site/sglang || { mkdir -p /tmp/site && tar xJf "$carried/site.tar.xz" -C /tmp/site; }
export CUDA_HOME=${CUDA_HOME:-$(dirname "$(dirname "$(readlink -f "$(command -v nvcc)")")")} HF_HUB_OFFLINE=1 PYTHONUNBUFFERED=1
export PYTHONPATH=/tmp/site:$PWD/crds:$PWD/agent:$PWD/trainer:$PWD
# The Rust prefix cache was built for another torch and reads tensors wrongly.
export SGLANG_UNIFIED_RADIX_TREE_CORE_BACKEND=python SGLANG_SKIP_SGL_KERNEL_VERSION_CHECK=1
