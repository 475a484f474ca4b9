// The interface to the CUDA backend libwhisker_cuda.so. It is opened by dlopen when a CUDA device
// is first used, because linking it would cost 100 ms at every start. The library uses core's
// symbols from the program; the program uses two C functions of the library.
#pragma once

#include "core/nvidia/cuda_start_times.h"
#include "core/tensor/device.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace whisker {

class Backend;

struct CudaOptions {
  bool tf32 = true;            ///< f32 gemms and convolutions may round their operands to tf32
  bool deterministic = false;  ///< only algorithms that repeat bit for bit; turns tf32 off
  /// Total seconds for timing the algorithms of repeated shapes; 0: the libraries' first proposals
  /// are used.
  double search_seconds = 0;
  /// Expected uses of each choice. Timing it may take a tenth of their total time, so that short
  /// runs search little; 0: no such limit.
  int64_t search_uses = 0;
  /// Workspace bytes of one convolution, besides an image padded for it (conv_algorithms.cpp).
  int64_t workspace_limit = int64_t{1} << 28;
  /// Convolutions and gemms by own kernels only, for compute-sanitizer's racecheck.
  bool without_libraries = false;
  bool operator==(const CudaOptions&) const = default;
};

/// A GPU, as the driver describes it.
struct CudaGpu {
  std::string name;         ///< "NVIDIA H200"
  int capability = 0;       ///< compute capability as one number: 90 for 9.0
  std::string bus_id = {};  ///< on PCI: "0000:01:00.0"
};

/// Libraries by the layers that need them. Opening one takes as long as starting the driver.
enum class CudaLibrary : uint8_t {
  products,          ///< cuBLASLt
  convolutions,      ///< cuDNN, with the parts of it that hold its convolutions and attention
  recurrent_layers,  ///< cuDNN, with the part that holds its recurrent layers
};

/// A stream whose work runs beside the compute stream's, for libraries that enqueue on a stream
/// they are given. A capture of the compute stream holds what is enqueued between fork() and
/// join().
class SideStream {
 public:
  virtual ~SideStream() = default;
  virtual void* stream() const = 0;  ///< cudaStream_t
  /// Its work from now on waits for the compute stream's so far.
  virtual void fork() = 0;
  /// The compute stream's work from now on waits for its work. Call fork() before.
  virtual void join() = 0;
  /// How long the compute stream waited in the last join() that the GPU has passed, replays
  /// included; 0 before.
  virtual double waited_seconds() const = 0;
};

/// What the library's C function whisker_cuda_interface() returns; the other lists versions.
struct CudaInterface {
  const char* version;  ///< of Whisker: library and program are built together
  uint64_t contract;    ///< a hash of the headers of core that both include
  std::unique_ptr<Backend> (*make_backend)(int index);
  CudaOptions (*options)(const Backend& backend);
  void (*set_options)(Backend& backend, const CudaOptions& options);
  CudaGpu (*gpu)(const Backend& backend);
  CudaStartTimes (*start_times)(const Backend& backend);
  void (*open)(Backend& backend, CudaLibrary library);
  void* (*stream)(const Backend& backend);
  std::unique_ptr<SideStream> (*make_side_stream)(Backend& backend);
  std::vector<std::string> (*take_failures)(Backend& backend);
};

/// What decides whether CUDA can be used here.
struct CudaFacts {
  bool built = false;             ///< this build has a CUDA backend
  bool driver = false;            ///< the driver's library, libcuda.so.1, is there
  bool nouveau = false;           ///< the Nouveau driver holds the GPU
  int driver_version = 0;         ///< newest CUDA that the driver supports: 13000 is 13.0
  int needed_version = 0;         ///< CUDA that this build needs
  std::string driver_error = {};  ///< the driver's error when it was started
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
/// Number of GPUs that the driver reports; 0 whenever why_no_cuda() is not empty.
int cuda_device_count();

/// Throws device unless a library that offers this, or null, was built with this program.
void check_built_together(const CudaInterface* offered);
/// Opens libwhisker_cuda.so. Throws device, with the loader's message, when that fails.
const CudaInterface& cuda_interface();
/// The backend of cuda:`index`. Throws device when there is none, saying why.
std::unique_ptr<Backend> make_cuda_backend(int index);

/// Options of a CUDA device's backend. Changing any but search_seconds and search_uses forgets the
/// choices made so far.
CudaOptions cuda_options(Device device);
void set_cuda_options(Device device, const CudaOptions& options);
/// The GPU of a CUDA device.
CudaGpu cuda_gpu(Device device);
/// The start times of a CUDA device whose backend has been used.
CudaStartTimes cuda_start_times(Device device);
/// The cudaStream_t that orders the device's work.
void* cuda_stream(Device device);
std::unique_ptr<SideStream> make_side_stream(Device device);
/// One line for each algorithm that failed when it was timed, and is not used; each line once.
std::vector<std::string> take_cuda_failures(Device device);
/// Opens `library` before its first use, for a background thread. Throws device when it is missing.
void open_cuda_library(Device device, CudaLibrary library);

}  // namespace whisker
