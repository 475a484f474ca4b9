# For scripts/gpu_tests.sh and scripts/sanitize_gpu.sh: what uses a GPU.

# Programs, and the patterns of those of their tests that use a GPU: the others take their time on the CPU. Those with
# the longest tests come first, so that none of them is what all processes wait for at the end.
gpu_test_programs=(
  "core/whisker_core_cuda_tests|*"
  "layers/whisker_layers_tests|*Cuda* */cuda_0 *Fused* Fusion.* RecurrentTraces.*"
  "train/whisker_train_run_tests|*Cuda* *Gpu* */cuda_0"
  "core/whisker_core_op_tests|*"
  "core/whisker_core_tape_tests|LocalRule.*"
  "core/whisker_core_cuda_few_channels_tests|*"
  "data/whisker_data_loader_tests|DeviceLoader.* GpuDecodeCuda.*"
  "data/whisker_data_image_tests|DeviceImages.*"
)
# What asks cuDNN for algorithms and compiles them, or builds programs of its own by nvcc: compute-sanitizer has nothing
# to say of either.
gpu_library_programs=(
  "apps/course/whisker_course_tests|*WrongAnswers*/tensor_cores *WrongAnswers*/async_copy"
  "core/whisker_core_cuda_algorithm_tests|*"
  "core/whisker_core_cuda_attention_tests|*"
)
# Tests beside which nothing else may use the GPU.
gpu_tests_alone="CudaMemoryShortage.OfTheDriverLeavesChoicesUntimed:CudaMemory.TheSummaryAddsUp:SoakOn.MemoryStaysFlat/cuda_0"
