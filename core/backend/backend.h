// What a device can do. Operators (core/ops/) check every argument, compute the geometry and
// allocate outputs; a kernel computes, checks nothing and records nothing. Outputs are overwritten
// unless a comment says otherwise. Shapes stand in the margin. What a device may lack is a pointer,
// null where it does.
#pragma once

#include "core/backend/registry.h"
#include "core/image/image_pipeline.h"
#include "core/image/jpeg_decoder.h"
#include "core/memory/memory.h"
#include "core/tensor/tensor.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace whisker {

/// One fact about a device: ("instructions", "AVX2, AVX-512").
struct BackendProperty {
  std::string name, value;
};

/// Points in the order of a device's work, by which to time it.
class DeviceClock {
 public:
  virtual ~DeviceClock() = default;
  /// Enqueues a mark and returns its number, from 0. Does not wait. Not while capturing.
  virtual int64_t mark() = 0;
  /// When each mark was passed, in milliseconds after the first one. Waits for the device.
  virtual std::vector<double> read() = 0;
};

/// Work recorded by Backend::capture.
class CapturedGraph {
 public:
  virtual ~CapturedGraph() = default;
  /// Does the work once more, on the same memory; in order with the device's operators, and without
  /// waiting for it.
  virtual void replay() = 0;
};

class AttentionKernels;
class ConvPoolKernels;
class ConvolutionKernels;
class ElementwiseKernels;
class FusedAddNorms;
class FusedConvNorm;
class FusedNormPool;
class GemmKernels;
class LossKernels;
class NormalizationKernels;
class PoolingKernels;
class RecurrentKernels;
class ReductionKernels;
class ShapeIndexKernels;
class TrainingStepKernels;

/// A device's kernels by family; the header of each stands beside this one, those of fused kernels
/// are attention.h, convolution.h (ConvPoolKernels) and fused_ops.h. They own no memory.
struct KernelFamilies {
  std::shared_ptr<ElementwiseKernels> elementwise;
  std::shared_ptr<ShapeIndexKernels> shape_index;
  std::shared_ptr<ReductionKernels> reduction;
  std::shared_ptr<GemmKernels> gemm;
  std::shared_ptr<ConvolutionKernels> convolution;
  std::shared_ptr<PoolingKernels> pooling;
  std::shared_ptr<NormalizationKernels> normalization;
  std::shared_ptr<RecurrentKernels> recurrent;
  std::shared_ptr<LossKernels> losses;
  std::shared_ptr<TrainingStepKernels> training_step;
  // Fused kernels: null where there are none.
  std::shared_ptr<AttentionKernels> attention = nullptr;
  std::shared_ptr<ConvPoolKernels> conv_pool = nullptr;
  std::shared_ptr<FusedConvNorm> fused_conv_norm = nullptr;
  std::shared_ptr<FusedAddNorms> fused_add_norms = nullptr;
  std::shared_ptr<FusedNormPool> fused_norm_pool = nullptr;
};

class Backend {
 public:
  /// `kernels` is a member of the device's class, the last one: it is destroyed before what it
  /// uses.
  explicit Backend(const KernelFamilies& kernels) : kernels_(kernels) {}
  virtual ~Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;

  /// What it computes on and with, for people.
  virtual std::vector<BackendProperty> properties() const = 0;

  // --- kernels -------------------------------------------------------------------------------
  ElementwiseKernels& elementwise() { return *kernels_.elementwise; }
  ShapeIndexKernels& shape_index() { return *kernels_.shape_index; }
  ReductionKernels& reduction() { return *kernels_.reduction; }
  GemmKernels& gemm() { return *kernels_.gemm; }
  ConvolutionKernels& convolution() { return *kernels_.convolution; }
  PoolingKernels& pooling() { return *kernels_.pooling; }
  NormalizationKernels& normalization() { return *kernels_.normalization; }
  RecurrentKernels& recurrent() { return *kernels_.recurrent; }
  LossKernels& losses() { return *kernels_.losses; }
  TrainingStepKernels& training_step() { return *kernels_.training_step; }

  // Fused kernels; null where there are none.
  AttentionKernels* attention() { return kernels_.attention.get(); }
  /// Convolution, activation and max-pooling at once.
  ConvPoolKernels* conv_pool() { return kernels_.conv_pool.get(); }
  /// Convolutions that do parts of the batch_norms around them.
  FusedConvNorm* fused_conv_norm() { return kernels_.fused_conv_norm.get(); }
  /// Two batch_norms whose results are added, in passes over both.
  FusedAddNorms* fused_add_norms() { return kernels_.fused_add_norms.get(); }
  /// Batch_norms and the max-pooling behind them in one pass.
  FusedNormPool* fused_norm_pool() { return kernels_.fused_norm_pool.get(); }

  // --- timed choices -------------------------------------------------------------------------
  /// The algorithms that timing has chosen so far, with what the choice depends on (library
  /// versions, instruction set, threads), as JSON for import_algorithms; "" when there are none.
  /// Results repeat bit for bit only under the same choices.
  virtual std::string export_algorithms() const { return ""; }
  /// Takes over exported choices; later convolutions follow them and are not timed. Those made
  /// under other versions, instructions or threads are ignored. Throws checkpoint, having changed
  /// nothing, when the text is damaged.
  virtual void import_algorithms(std::string_view) {}

  // --- memory --------------------------------------------------------------------------------
  /// 64-byte aligned (256 on a GPU). Throws device when none is left.
  virtual void* allocate(int64_t bytes, MemoryCategory category) = 0;
  virtual void deallocate(void* memory, int64_t bytes, MemoryCategory category) = 0;
  virtual MemoryStats memory_stats() const = 0;
  virtual void reset_peak() = 0;
  /// The allocator's books beside what the system shows; a host device's by default.
  virtual MemorySummary memory_summary() const;
  virtual void set_memory_options(const MemoryOptions& options) = 0;
  /// Gives cached, unused memory back to the system.
  virtual void empty_cache() = 0;
  /// Host memory to device and back; both return once the copy is complete.
  virtual void upload(const void* host, void* device, int64_t bytes) = 0;
  virtual void download(const void* device, void* host, int64_t bytes) = 0;
  virtual void copy(const void* source, void* target, int64_t bytes) = 0;
  /// Host memory to device in the order of the operators, without waiting for them: `host` may be
  /// changed once this returns. Not while capturing.
  virtual void enqueue_upload(const void* host, void* device, int64_t bytes) {
    upload(host, device, bytes);
  }
  virtual void synchronize() = 0;
  /// Null on host devices, whose work is done when a method returns.
  virtual std::unique_ptr<DeviceClock> make_clock() { return nullptr; }
  /// Records what `work` asks of this device, without doing it; null, with `work` not called, where
  /// that cannot be done (host devices). `work` must neither wait for the device nor read from it.
  /// Memory that it takes stays reserved until the graph goes, also what it gives back; graphs of
  /// one device may share it, as nothing outlives a replay but what lay in memory taken before.
  virtual std::unique_ptr<CapturedGraph> capture(const std::function<void()>& /*work*/) {
    return nullptr;
  }

  // --- images ------------------------------------------------------------------------------
  /// Host memory that the device can read while the host goes on; plain memory on host devices.
  /// Thread-safe. Slow: keep what you get. Throws device when none is left.
  virtual void* allocate_pinned(int64_t bytes) = 0;
  virtual void deallocate_pinned(void* memory, int64_t bytes) = 0;
  /// Null on host devices, whose images the loader's threads finish.
  virtual std::unique_ptr<ImagePipeline> make_image_pipeline() { return nullptr; }
  /// Null where JPEG files cannot be decoded on the device; `why` then says so in a sentence.
  virtual std::shared_ptr<JpegDecoder> make_jpeg_decoder(std::string& why) {
    why = "this device leaves decoding to the host.";
    return nullptr;
  }

 private:
  const KernelFamilies& kernels_;
};

}  // namespace whisker
