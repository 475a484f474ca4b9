// The door to the CUDA backend: libwhisker_cuda.so, opened by dlopen when a CUDA device is first
// asked for, because linking it would cost every start 100 ms. The library takes
// core's symbols from the program; the program takes two C functions from the library.
#pragma once

#include "core/backend.h"
#include "core/cuda_start_times.h"

#include <memory>
#include <optional>
#include <string>

namespace whisker {

/// Whether convolutions do parts of the batch norms around them (docs/cuda.md, "Chains"); never
/// when `deterministic`.
enum class ConvolutionChaining : uint8_t {
  never,
  faster,  ///< where timing has shown it to be
  always,  ///< wherever cuDNN can
};

struct CudaOptions {
  bool tf32 = true;            ///< f32 products and convolutions may round their operands to tf32
  bool deterministic = false;  ///< only algorithms that repeat bit for bit; turns tf32 off
  /// Seconds in all that choosing algorithms by timing may take, for shapes that come back; 0: the
  /// libraries' first proposals.
  double search_seconds = 0;
  /// How often what is chosen will be computed: one choice may take a tenth of the time of all
  /// that, so that short runs search little; 0: search as if for ever.
  int64_t search_uses = 0;
  int64_t workspace_limit = int64_t{1} << 28;  ///< bytes that one convolution may work in
  /// The process computes little: convolutions and products that take our own kernels milliseconds
  /// are theirs, so that cuDNN and cuBLASLt, which take longer to load, are not needed.
  bool short_lived = false;
  ConvolutionChaining chaining = ConvolutionChaining::faster;
  bool operator==(const CudaOptions&) const = default;
};

/// What is chosen by the GPU itself.
struct CudaGpu {
  std::string name;    ///< "NVIDIA H200"
  int capability = 0;  ///< compute capability as one number: 90 for 9.0
};

/// Libraries by what of a network needs them; they take as long to open as the driver to start.
enum class CudaLibrary : uint8_t {
  products,          ///< cuBLASLt
  convolutions,      ///< cuDNN, with the parts of it that hold its convolutions
  recurrent_layers,  ///< cuDNN, with the part that holds its recurrent layers
};

/// What the library's C function whisker_cuda_interface() returns; the other lists versions.
struct CudaInterface {
  const char* version;  ///< of Whisker: library and program are built together
  std::unique_ptr<Backend> (*make_backend)(int index);
  CudaOptions (*options)(const Backend& backend);
  void (*set_options)(Backend& backend, const CudaOptions& options);
  CudaGpu (*gpu)(const Backend& backend);
  CudaStartTimes (*start_times)(const Backend& backend);
  void (*open)(Backend& backend, CudaLibrary library);
};

/// What decides whether CUDA can be used here.
struct CudaFacts {
  bool built = false;             ///< this build has a CUDA backend
  bool driver = false;            ///< the driver's library, libcuda.so.1, is there
  bool nouveau = false;           ///< the Nouveau driver holds the GPU
  int driver_version = 0;         ///< newest CUDA that the driver supports: 13000 is 13.0
  int needed_version = 0;         ///< CUDA that this build needs
  std::string driver_error = {};  ///< what the driver said when it was started
  int count = 0;                  ///< GPUs that the driver offers
  double seconds = 0;             ///< that the driver took to start
  std::optional<std::string> visible_devices = {};  ///< CUDA_VISIBLE_DEVICES
};
/// Asks this machine, once; does not open libwhisker_cuda.so.
const CudaFacts& cuda_facts();

/// One sentence and a remedy, or "" when CUDA can be used.
std::string why_no_cuda(const CudaFacts& facts);
inline std::string why_no_cuda() {
  return why_no_cuda(cuda_facts());
}
/// GPUs that the driver offers: 0 whenever why_no_cuda() says something.
int cuda_device_count();

/// Opens libwhisker_cuda.so. Throws device, with the loader's words, when that fails.
const CudaInterface& cuda_interface();
/// The backend of cuda:`index`. Throws device when there is none, saying why.
std::unique_ptr<Backend> make_cuda_backend(int index);

/// Options of a CUDA device's backend. Changing any but search_seconds and search_uses forgets the
/// choices made so far.
CudaOptions cuda_options(Device device);
void set_cuda_options(Device device, const CudaOptions& options);
/// The GPU that a CUDA device is.
CudaGpu cuda_gpu(Device device);
/// Of a CUDA device whose backend has been used.
CudaStartTimes cuda_start_times(Device device);
/// Opens what would be opened at its first use, for a thread that has nothing else to do. Throws
/// device when it is not there.
void open_cuda_library(Device device, CudaLibrary library);

}  // namespace whisker
